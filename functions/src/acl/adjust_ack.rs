//! `adjust_ack`: acknowledges `adjust` (decision 11).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Adjust, ack)
}
