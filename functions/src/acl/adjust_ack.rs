//! `adjust_ack`: a step of the acknowledgement of `adjust` (ruling 11).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

/// The sidecar has it, or the agent works as it was asked to.
pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Adjust, ack)
}
