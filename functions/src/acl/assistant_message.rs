//! `assistant_message`: a message of the agent, or a tool call (S0 8.3).

use pilothouse_domain::Timestamp;
use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_store::JournalView;
use pilothouse_wire::event::AssistantContent;

use super::{Mapping, first_line, tool_use};

/// Maps to `RecordAgentMessageCommand { Source: Agent }`, or to [`tool_use`].
pub fn map(content: &AssistantContent, now: Timestamp) -> Mapping {
    match content {
        AssistantContent::Text { text } | AssistantContent::Thinking { text } => {
            let text = text.text();
            Mapping::to(AgentFact::Said { subagent: None })
                .line(ActivityItemType::Message, first_line(&text), now)
                .detail(&text)
                .listed(JournalView::Message { subagent: None })
        }
        AssistantContent::ToolUse { tool_call_id, tool_name, input } => {
            tool_use::map(tool_call_id, tool_name, input, None, now)
        }
    }
}
