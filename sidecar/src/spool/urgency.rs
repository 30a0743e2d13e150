//! Which events a person or the control plane waits for. The others may wait for more events before they are sent (decision 51).

use pilothouse_sqlite::rusqlite::types::{
    FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef,
};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{Ack, AckStep, AssistantContent, MessagePhase};

use crate::tool_names::{ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE};

/// Schema step: envelopes of an older version count as urgent.
pub(super) const COLUMN: &str = "ALTER TABLE outgoing ADD COLUMN urgent INTEGER NOT NULL DEFAULT 1;";

/// Calls that are requests themselves, or change the status of the session. The question of any other call is a separate event.
const URGENT_TOOLS: [&str; 3] = [ASK_USER_QUESTION, ENTER_PLAN_MODE, EXIT_PLAN_MODE];

/// How long an event may wait for others. Its number is stored in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Progress of the work, which may wait where requests are billed.
    Progress = 0,
    /// Somebody waits for it.
    Now = 1,
    /// The receipt of a command. The outcome often follows within milliseconds and then shares its request and its commit.
    Receipt = 2,
}

impl ToSql for Urgency {
    fn to_sql(&self) -> pilothouse_sqlite::rusqlite::Result<ToSqlOutput<'_>> {
        Ok((*self as u8).into())
    }
}

impl FromSql for Urgency {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::Progress),
            1 => Ok(Self::Now),
            2 => Ok(Self::Receipt),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

impl Urgency {
    /// Acknowledgements of an outcome, requests, turns, ends and notices are urgent.
    pub(super) fn of(event: &RawEvent) -> Self {
        if is_receipt(event) {
            Self::Receipt
        } else if is_progress(event) {
            Self::Progress
        } else {
            Self::Now
        }
    }
}

const fn is_receipt(event: &RawEvent) -> bool {
    match event {
        RawEvent::BeginAck(ack)
        | RawEvent::InterruptAck(ack)
        | RawEvent::PauseAck(ack)
        | RawEvent::ResumeAck(ack)
        | RawEvent::StopAck(ack)
        | RawEvent::ReloadConfigAck(ack)
        | RawEvent::AdjustAck(ack)
        | RawEvent::AnswerAck(ack)
        | RawEvent::ValidationAck(ack) => matches!(ack, Ack { step: AckStep::Received, .. }),
        RawEvent::MessageAck { phase, .. } => matches!(phase, MessagePhase::Received),
        _ => false,
    }
}

fn is_progress(event: &RawEvent) -> bool {
    match event {
        RawEvent::AssistantMessage { content: AssistantContent::ToolUse { tool_name, .. }, .. } => {
            !URGENT_TOOLS.contains(&tool_name.as_str())
        }
        RawEvent::AssistantMessage { .. }
        | RawEvent::ToolResult { .. }
        | RawEvent::SubagentStarted { .. }
        | RawEvent::SubagentMessage { .. }
        | RawEvent::SubagentEnded { .. }
        | RawEvent::UsageUpdate(_)
        | RawEvent::Deliverables { .. }
        | RawEvent::TaskList { .. }
        | RawEvent::LogChunk { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn urgency(event: Value) -> Urgency {
        Urgency::of(&serde_json::from_value(event).unwrap())
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
            assert_eq!(urgency(event.clone()), Urgency::Progress, "{event}");
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
            assert_eq!(urgency(event.clone()), Urgency::Now, "{event}");
        }
    }

    #[test]
    fn receipt_of_a_command_waits_for_the_outcome() {
        let id = "00000000-0000-0000-0000-000000000001";
        for name in [
            "begin",
            "interrupt",
            "pause",
            "resume",
            "stop",
            "reload_config",
            "adjust",
            "answer",
            "validation",
        ] {
            let ack = |step| json!({ "type": format!("{name}_ack"), "commandId": id, "step": step });
            assert_eq!(urgency(ack("received")), Urgency::Receipt, "{name}");
            assert_eq!(urgency(ack("done")), Urgency::Now, "{name}");
        }
        let message =
            |phase| json!({ "type": "message_ack", "commandId": id, "messageId": id, "phase": phase });
        assert_eq!(urgency(message("received")), Urgency::Receipt);
        assert_eq!(urgency(message("injecting")), Urgency::Now);
        assert_eq!(urgency(message("injected")), Urgency::Now);
    }
}
