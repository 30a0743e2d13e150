//! `subagent_message`: a message of a subagent, which is not part of the parent's messages (S0 8.3).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_domain::{SubAgentId, Timestamp};
use pilothouse_store::JournalView;
use pilothouse_wire::event::AssistantContent;

use super::{Mapping, first_line, tool_use};

/// Maps to `RecordAgentMessageCommand { Source: SubAgent, SubAgentId }`, or to [`tool_use`].
pub fn map(subagent: &SubAgentId, content: &AssistantContent, now: Timestamp) -> Mapping {
    let mapping = match content {
        AssistantContent::Text { text } | AssistantContent::Thinking { text } => {
            let text = text.text();
            Mapping::to(AgentFact::Said { subagent: Some(subagent.clone()) })
                .line(ActivityItemType::Message, first_line(&text), now)
                .detail(&text)
                .listed(JournalView::Message { subagent: Some(subagent.clone()) })
        }
        AssistantContent::ToolUse { tool_call_id, tool_name, input } => {
            tool_use::map(tool_call_id, tool_name, input, Some(subagent), now)
        }
    };
    mapping.about(Some(subagent.clone()))
}
