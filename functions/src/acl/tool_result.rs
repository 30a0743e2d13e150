//! `tool_result`: the result of a tool call, which is not a message (S0 8.3 `RecordToolCallResultCommand`).

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_domain::{SubAgentId, Timestamp, ToolCallId};
use pilothouse_store::JournalView;
use pilothouse_wire::event::Content;

use super::{Mapping, first_line};

/// Maps the result of `call`. The intake fills in `called_at`, because only the session knows the call.
pub fn map(
    call: &ToolCallId,
    content: &Content,
    is_error: bool,
    subagent: Option<&SubAgentId>,
    now: Timestamp,
) -> Mapping {
    let text = content.text();
    let word = if is_error { "Error" } else { "Done" };
    let first = first_line(&text);
    let summary = if first.is_empty() { word.to_owned() } else { format!("{word}: {first}") };
    Mapping::to(AgentFact::ToolEnded { call: call.clone(), is_error, subagent: subagent.cloned() })
        .line(ActivityItemType::ToolCallEnd, &summary, now)
        .detail(&text)
        .listed(JournalView::ToolResult { called_at: None, subagent: subagent.cloned() })
        .about(subagent.cloned())
}
