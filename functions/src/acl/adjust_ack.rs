//! `adjust_ack`: acknowledges `adjust` (decision 11).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

/// `received`: the sidecar has the command. `done`: the agent applies the adjustment.
pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Adjust, ack)
}
