//! `answer_ack`: the agent received the answer or the decision (S0 8.3).

use pilothouse_domain::session::LifecycleCommand;
use pilothouse_wire::event::Ack;

use super::{Mapping, acknowledgement};

pub fn map(ack: Ack) -> Mapping {
    acknowledgement(LifecycleCommand::Answer, ack)
}
