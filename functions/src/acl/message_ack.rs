//! `message_ack`: how far a message got on its way to the agent (S0 8.10 step 5, ruling 30).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::{CommandId, MessageId};
use pilothouse_wire::event::MessagePhase;

use super::Mapping;

/// `MarkDelivered` only when the agent has it.
pub fn map(command: CommandId, message: MessageId, phase: MessagePhase) -> Mapping {
    Mapping::to(match phase {
        MessagePhase::Received => AgentFact::CommandReceived(command),
        MessagePhase::Injecting => AgentFact::MessageInjecting(message),
        MessagePhase::Injected => AgentFact::MessageInjected(message),
    })
}
