//! `message_ack`: the progress of a message on its way to the agent (S0 8.10 step 5, decision 30).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::{CommandId, MessageId};
use pilothouse_wire::event::MessagePhase;

use super::Mapping;

/// Only `injected` marks the message as delivered.
pub fn map(command: CommandId, message: MessageId, phase: MessagePhase) -> Mapping {
    Mapping::to(match phase {
        MessagePhase::Received => AgentFact::CommandReceived(command),
        MessagePhase::Injecting => AgentFact::MessageInjecting(message),
        MessagePhase::Injected => AgentFact::MessageInjected(message),
    })
}
