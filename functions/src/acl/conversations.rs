//! `conversations`: the branches of the agent's conversations, and the labels of its turns (S1 5, 9).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::AgentConversations;

use super::Mapping;

pub fn map(conversations: &AgentConversations) -> Mapping {
    Mapping::to(AgentFact::ConversationsReported(conversations.clone().fitted()))
}
