//! `interrupt_ack`: the sidecar ended the turn, which confirms the interrupt (S0 8.3).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Interrupt, ack)
}
