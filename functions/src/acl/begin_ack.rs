//! `begin_ack`: the agent was started; its own events follow (S0 8.3).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Begin, ack)
}
