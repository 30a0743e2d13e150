//! A tool call (S0 8.3): `RecordToolCallCommand`, and an additional fact for four tools. The additional fact applies only to calls
//! of the main agent; a subagent plans and asks within its own work.

mod ask_user_question;
mod enter_plan_mode;
mod exit_plan_mode;
mod todo_write;

use pilothouse_domain::session::AgentFact;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::ActivityItemType;
use pilothouse_domain::{SubAgentId, Timestamp, ToolCallId};
use pilothouse_store::JournalView;
use serde_json::Value;

use super::{Mapping, first_line};

/// Maps a call of `tool` with `input`, by the main agent or by `subagent`.
pub fn map(
    call: &ToolCallId,
    tool: &str,
    input: &Value,
    subagent: Option<&SubAgentId>,
    now: Timestamp,
) -> Mapping {
    let started =
        AgentFact::ToolStarted { call: call.clone(), name: cut(tool, 200), subagent: subagent.cloned() };
    let mapping = Mapping::to(started)
        .line(ActivityItemType::ToolCallStart, &format!("{tool}: {}", input_summary(input)), now)
        .detail(&input.to_string())
        .tool(tool)
        .listed(JournalView::ToolCall { call: call.clone(), subagent: subagent.cloned() });
    let meaning = match (tool, subagent) {
        ("AskUserQuestion", None) => ask_user_question::fact(call, input),
        ("TodoWrite", None) => todo_write::fact(input, now),
        ("EnterPlanMode", None) => Some(enter_plan_mode::fact()),
        ("ExitPlanMode", None) => Some(exit_plan_mode::fact(call, input)),
        _ => None,
    };
    match meaning {
        Some(fact) => mapping.and(fact),
        None => mapping,
    }
}

/// Returns the part of an input that summarises it: the command, the path or the pattern, otherwise the first text.
fn input_summary(input: &Value) -> String {
    const SUMMARY_FIELDS: [&str; 8] =
        ["description", "command", "file_path", "path", "pattern", "query", "url", "prompt"];
    let Some(fields) = input.as_object() else { return cut(&input.to_string(), 120) };
    let summary = SUMMARY_FIELDS.iter().find_map(|name| fields.get(*name)?.as_str());
    let text = summary
        .or_else(|| fields.values().find_map(Value::as_str))
        .map_or_else(|| input.to_string(), str::to_owned);
    cut(first_line(&text), 120)
}
