//! Which events a person or the control plane waits for. The others may wait for more events before they are sent (decision 51).

use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;

use crate::kit::tool_names::{ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE};

/// Schema step: envelopes of an older version count as urgent.
pub(super) const COLUMN: &str = "ALTER TABLE outgoing ADD COLUMN urgent INTEGER NOT NULL DEFAULT 1;";

/// Calls that are requests themselves, or change the status of the session. The question of any other call is a separate event.
const URGENT_TOOLS: [&str; 3] = [ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE];

/// Only the progress of the work is not urgent. Acknowledgements, requests, turns, ends and notices are.
pub(super) fn is_urgent(event: &RawEvent) -> bool {
    match event {
        RawEvent::AssistantMessage { content: AssistantContent::ToolUse { tool_name, .. }, .. } => {
            URGENT_TOOLS.contains(&tool_name.as_str())
        }
        RawEvent::AssistantMessage { .. }
        | RawEvent::ToolResult { .. }
        | RawEvent::SubagentStarted { .. }
        | RawEvent::SubagentMessage { .. }
        | RawEvent::SubagentEnded { .. }
        | RawEvent::UsageUpdate(_)
        | RawEvent::Deliverables { .. }
        | RawEvent::TaskList { .. }
        | RawEvent::LogChunk { .. } => false,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn urgent(event: Value) -> bool {
        is_urgent(&serde_json::from_value(event).unwrap())
    }

    fn call(tool: &str) -> Value {
        json!({ "type": "assistant_message",
            "content": { "kind": "tool_use", "toolCallId": "c", "toolName": tool, "input": {} } })
    }

    #[test]
    fn progress_of_the_work_is_not_urgent() {
        for event in [
            json!({ "type": "assistant_message", "content": { "kind": "text", "text": "x" } }),
            call("Bash"),
            call("request_decision"),
            json!({ "type": "tool_result", "toolCallId": "c", "content": "x", "isError": true }),
            json!({ "type": "log_chunk", "stream": "agent", "content": "x" }),
            json!({ "type": "task_list", "tasks": [] }),
            json!({ "type": "subagent_started", "subagentId": "s", "objective": "look" }),
            json!({ "type": "subagent_ended", "subagentId": "s" }),
        ] {
            assert!(!urgent(event.clone()), "{event}");
        }
    }

    #[test]
    fn events_that_somebody_waits_for_are_urgent() {
        let id = "00000000-0000-0000-0000-000000000001";
        for event in [
            call("AskUserQuestion"),
            call("ExitPlanMode"),
            json!({ "type": "question_asked", "requestId": "c", "questions": [{ "question": "Which?" }] }),
            json!({ "type": "turn_started", "turnId": "t" }),
            json!({ "type": "turn_completed", "turnId": "t" }),
            json!({ "type": "pause_ack", "commandId": id, "step": "done" }),
            json!({ "type": "command_refused", "commandId": id, "code": "no-agent", "message": "x" }),
            json!({ "type": "session_end", "isError": true, "reason": "crashed" }),
            json!({ "type": "notice", "name": "api_retry", "summary": "x" }),
            json!({ "type": "budget_exceeded", "neededUsd": "1", "leftUsd": "0" }),
            json!({ "type": "context_exhausted" }),
        ] {
            assert!(urgent(event.clone()), "{event}");
        }
    }
}
