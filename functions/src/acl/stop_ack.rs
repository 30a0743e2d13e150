//! `stop_ack`: the sidecar ended the agent, which confirms the cancellation (S0 8.3).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Stop, ack)
}
