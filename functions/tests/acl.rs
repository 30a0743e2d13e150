//! The mapping of every raw event to facts (S0 8.3): the table of the specification, and the events that the specification
//! requires without listing them.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use pilothouse_domain::escalation::ToolApproval;
use pilothouse_domain::output::{CommitSha, SessionOutput};
use pilothouse_domain::session::{AgentFact as F, LifecycleCommand as L, UsageReport};
use pilothouse_domain::text::PlanContent;
use pilothouse_domain::value::{
    ActivityItemType, AgentConversations, AgentSettings, Capabilities, ContextWindowSnapshot,
    ConversationBranch, DeliverableCounts, Question, QuestionOption, SessionOutcome, SessionTask,
    SessionTaskStatus, ThinkingLevel, TokenUsage, TurnLabel,
};
use pilothouse_domain::{CommandId, MessageId, MeterId, SubAgentId, Timestamp, ToolCallId, TurnId};
use pilothouse_functions::acl::{Mapping, map};
use pilothouse_store::JournalView;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};

const NOW: i64 = 1_700_000_000_000;
const COMMAND: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const MESSAGE: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

fn mapped(raw: Value) -> Mapping {
    map(&serde_json::from_value(raw).unwrap(), now()).unwrap()
}

fn call() -> ToolCallId {
    "call-1".parse().unwrap()
}

fn sub() -> SubAgentId {
    "sub-1".parse().unwrap()
}

fn turn() -> TurnId {
    "turn-1".parse().unwrap()
}

fn command() -> CommandId {
    COMMAND.parse().unwrap()
}

fn message() -> MessageId {
    MESSAGE.parse().unwrap()
}

fn tool(name: &str, input: &Value) -> Value {
    json!({ "type": "assistant_message",
        "content": { "kind": "tool_use", "toolCallId": "call-1", "toolName": name, "input": input } })
}

fn started(name: &str) -> F {
    F::ToolStarted { call: call(), name: name.to_owned(), subagent: None }
}

fn ack(name: &str, step: &str) -> Value {
    json!({ "type": name, "commandId": COMMAND, "step": step })
}

fn task(subject: &str, status: SessionTaskStatus) -> SessionTask {
    SessionTask {
        id: "1".to_owned(),
        subject: subject.to_owned(),
        status,
        active_form: None,
        updated_at: now(),
    }
}

fn question() -> Question {
    Question {
        question: "Which?".to_owned(),
        header: None,
        options: vec![QuestionOption { label: "This".to_owned(), description: None }],
        multi_select: false,
    }
}

fn output() -> SessionOutput {
    SessionOutput {
        output_line_count: 1,
        files_changed: 2,
        tests_added: 3,
        all_tests_passing: true,
        commit_sha: Some(CommitSha::parse("a".repeat(40)).unwrap()),
        ..SessionOutput::default()
    }
}

/// The rows of S0 8.3, and the events that the specification requires without listing them.
#[allow(clippy::too_many_lines)] // it is a table
fn table() -> Vec<(Value, Vec<F>)> {
    let output_json = serde_json::to_value(output()).unwrap();
    let usage = json!({ "inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 3, "cacheWriteTokens": 4 });
    let tokens: TokenUsage = serde_json::from_value(usage.clone()).unwrap();
    let mut window = usage.clone();
    window["modelContextLimit"] = json!(200);
    vec![
        (
            json!({ "type": "assistant_message", "content": { "kind": "text", "text": "Hello" } }),
            vec![F::Said { subagent: None }],
        ),
        (tool("Bash", &json!({ "command": "ls" })), vec![started("Bash")]),
        (
            tool(
                "AskUserQuestion",
                &json!({ "questions": [{ "question": "Which?", "options": [{ "label": "This" }] }] }),
            ),
            vec![
                started("AskUserQuestion"),
                F::QuestionAsked {
                    request: call(),
                    questions: vec![question()],
                    approval: None,
                    proposal: None,
                    timeout: None,
                },
            ],
        ),
        (
            tool("AskUserQuestion", &json!({ "question": "Which?", "options": ["This"] })),
            vec![
                started("AskUserQuestion"),
                F::QuestionAsked {
                    request: call(),
                    questions: vec![question()],
                    approval: None,
                    proposal: None,
                    timeout: None,
                },
            ],
        ),
        (
            tool("TodoWrite", &json!({ "todos": [{ "content": "Do it", "status": "in_progress" }] })),
            vec![started("TodoWrite"), F::TasksReplaced(vec![task("Do it", SessionTaskStatus::InProgress)])],
        ),
        (tool("EnterPlanMode", &json!({})), vec![started("EnterPlanMode"), F::PlanModeEntered]),
        (
            tool("ExitPlanMode", &json!({ "plan": "1. Do it" })),
            vec![
                started("ExitPlanMode"),
                F::PlanShown {
                    request: call(),
                    content: Some(PlanContent::parse("1. Do it").unwrap()),
                    timeout: None,
                },
            ],
        ),
        (
            json!({ "type": "tool_result", "toolCallId": "call-1", "content": "done", "isError": true }),
            vec![F::ToolEnded { call: call(), is_error: true, subagent: None }],
        ),
        (
            json!({ "type": "subagent_message", "subagentId": "sub-1", "content": { "kind": "text", "text": "Hi" } }),
            vec![F::Said { subagent: Some(sub()) }],
        ),
        (
            json!({ "type": "usage_update", "meterId": "m", "modelId": "x", "subagentId": "sub-1", "costUsd": "0.25",
                "tokenUsage": usage, "contextWindow": window }),
            vec![F::Used(UsageReport {
                meter: MeterId::parse("m").unwrap(),
                model: "x".to_owned(),
                subagent: Some(sub()),
                cost: "0.25".parse().unwrap(),
                tokens,
                context_window: Some(ContextWindowSnapshot {
                    usage: tokens,
                    model_context_limit: 200,
                    recorded_at: now(),
                }),
            })],
        ),
        (
            json!({ "type": "context_nearing_limit", "usagePercent": "85.5" }),
            vec![F::ContextNearingLimit { usage_percent: "85.5".to_owned() }],
        ),
        (json!({ "type": "context_exhausted" }), vec![F::ContextExhausted]),
        (json!({ "type": "handoff_document", "summary": "s", "remainingWork": "r" }), vec![written(None)]),
        (
            json!({ "type": "handoff_document", "summary": "s", "remainingWork": "r", "keyDecisions": "k" }),
            vec![written(Some("k"))],
        ),
        (
            json!({ "type": "voluntary_handoff", "reason": "done here", "summary": "s", "remainingWork": "r" }),
            vec![F::HandedOver { reason: "done here".to_owned() }, written(None)],
        ),
        (
            json!({ "type": "session_end", "isError": false, "reason": "success", "output": output_json }),
            vec![F::SessionEnded {
                is_error: false,
                reason: "success".to_owned(),
                message: None,
                output: Some(output()),
            }],
        ),
        (
            json!({ "type": "session_end", "isError": true, "reason": "error_max_turns", "message": "Too many." }),
            vec![F::SessionEnded {
                is_error: true,
                reason: "error_max_turns".to_owned(),
                message: Some("Too many.".to_owned()),
                output: None,
            }],
        ),
        (ack("interrupt_ack", "done"), vec![F::CommandDone(L::Interrupt, command())]),
        (ack("interrupt_ack", "received"), vec![F::CommandReceived(command())]),
        (ack("pause_ack", "done"), vec![F::CommandDone(L::Pause, command())]),
        (ack("resume_ack", "done"), vec![F::CommandDone(L::Resume, command())]),
        (ack("stop_ack", "done"), vec![F::CommandDone(L::Stop, command())]),
        (ack("reload_config_ack", "done"), vec![F::CommandDone(L::Reload, command())]),
        (ack("validation_ack", "received"), vec![F::CommandReceived(command())]),
        (
            json!({ "type": "validation_result", "commandId": command(), "results": [] }),
            vec![F::Validated { command: command(), results: Vec::new() }],
        ),
        (ack("begin_ack", "done"), vec![F::CommandDone(L::Begin, command())]),
        (ack("answer_ack", "done"), vec![F::CommandDone(L::Answer, command())]),
        (
            json!({ "type": "sidecar_ready", "sidecarVersion": "1", "adapter": "script",
                "capabilities": Capabilities::default() }),
            vec![F::SidecarReady(Capabilities::default())],
        ),
        (
            json!({ "type": "message_ack", "commandId": COMMAND, "messageId": MESSAGE, "phase": "received" }),
            vec![F::CommandReceived(command())],
        ),
        (
            json!({ "type": "message_ack", "commandId": COMMAND, "messageId": MESSAGE, "phase": "injecting" }),
            vec![F::MessageInjecting(message())],
        ),
        (
            json!({ "type": "message_ack", "commandId": COMMAND, "messageId": MESSAGE, "phase": "injected" }),
            vec![F::MessageInjected(message())],
        ),
        (
            json!({ "type": "command_refused", "commandId": COMMAND, "code": "no-agent", "message": "There is none." }),
            vec![F::CommandRefused {
                command: command(),
                code: "no-agent".to_owned(),
                message: "There is none.".to_owned(),
            }],
        ),
        (
            json!({ "type": "turn_started", "turnId": "turn-1", "messageId": MESSAGE }),
            vec![F::TurnStarted { turn: turn(), message: Some(message()) }],
        ),
        (
            json!({ "type": "turn_completed", "turnId": "turn-1" }),
            vec![F::TurnCompleted { turn: turn(), output: None, outcome: SessionOutcome::Completed }],
        ),
        (
            json!({ "type": "turn_completed", "turnId": "turn-1", "output": output_json }),
            vec![F::TurnCompleted {
                turn: turn(),
                output: Some(output()),
                outcome: SessionOutcome::Completed,
            }],
        ),
        (
            json!({ "type": "turn_completed", "turnId": "turn-1", "outcome": "max_iterations" }),
            vec![F::TurnCompleted { turn: turn(), output: None, outcome: SessionOutcome::MaxIterations }],
        ),
        (
            json!({ "type": "adjust_ack", "commandId": COMMAND, "step": "received" }),
            vec![F::CommandReceived(command())],
        ),
        (
            json!({ "type": "adjust_ack", "commandId": COMMAND, "step": "done" }),
            vec![F::CommandDone(L::Adjust, command())],
        ),
        (
            json!({ "type": "agent_settings", "modelId": "large", "thinkingLevel": "high", "availableModels": ["small", "large", ""] }),
            vec![F::SettingsReported(AgentSettings {
                model_id: "large".to_owned(),
                thinking_level: Some(ThinkingLevel::High),
                available_models: vec!["small".to_owned(), "large".to_owned()],
            })],
        ),
        (
            json!({ "type": "conversations", "labels": [{ "turnId": "turn-1", "label": "good" }],
                "branches": [{ "conversationId": "b", "parentId": "a", "lastTurnId": "turn-1", "turns": 1, "isCurrent": true }] }),
            vec![F::ConversationsReported(AgentConversations {
                branches: vec![ConversationBranch {
                    conversation_id: "b".to_owned(),
                    parent_id: Some("a".to_owned()),
                    last_turn_id: Some(turn()),
                    turns: 1,
                    is_current: true,
                }],
                labels: vec![TurnLabel { turn_id: turn(), label: "good".to_owned() }],
            })],
        ),
        (
            // Agents set no due time: the control plane does.
            json!({ "type": "question_asked", "requestId": "call-1", "questions": [{ "question": "May it?" }],
                "dueByTick": 5 }),
            vec![F::QuestionAsked {
                request: call(),
                questions: vec![Question {
                    question: "May it?".to_owned(),
                    header: None,
                    options: Vec::new(),
                    multi_select: false,
                }],
                approval: None,
                proposal: None,
                timeout: None,
            }],
        ),
        (
            json!({ "type": "question_asked", "requestId": "call-1", "questions": [{ "question": "May it?" }],
                "approval": { "toolName": "Bash", "input": { "command": "ls" }, "allow": "Allow", "deny": "Deny" } }),
            vec![F::QuestionAsked {
                request: call(),
                questions: vec![Question {
                    question: "May it?".to_owned(),
                    header: None,
                    options: Vec::new(),
                    multi_select: false,
                }],
                approval: Some(ToolApproval {
                    tool_name: "Bash".to_owned(),
                    input: r#"{"command":"ls"}"#.to_owned(),
                    input_blob: None,
                    allow: "Allow".to_owned(),
                    deny: "Deny".to_owned(),
                    verdict: None,
                    modifiable: false,
                }),
                proposal: None,
                timeout: None,
            }],
        ),
        (json!({ "type": "question_asked", "requestId": "call-1", "questions": [] }), vec![F::Noted]),
        (
            json!({ "type": "budget_exceeded", "neededUsd": "0.4", "leftUsd": "0.1" }),
            vec![F::BudgetExceeded { needed: "0.4".parse().ok(), left: "0.1".parse().ok() }],
        ),
        (
            json!({ "type": "budget_exceeded", "neededUsd": "much", "leftUsd": "" }),
            vec![F::BudgetExceeded { needed: None, left: None }],
        ),
        (
            json!({ "type": "quota_exceeded", "message": " ", "resetAt": now() }),
            vec![F::QuotaExceeded { message: None, reset_at: Some(now()) }],
        ),
        (
            json!({ "type": "model_unavailable", "message": "overloaded", "retryAt": now() }),
            vec![F::ModelUnavailable { message: Some("overloaded".to_owned()), retry_at: Some(now()) }],
        ),
        (
            json!({ "type": "deliverables", "deliverables": [
                { "id": "DL-001", "description": "x", "acceptanceCriteria": [], "status": "passed" },
                { "id": "DL-002", "description": "y", "acceptanceCriteria": [], "status": "pending" },
            ] }),
            vec![F::DeliverablesReported(DeliverableCounts { pending: 1, passed: 1, blocked: 0 })],
        ),
        (
            json!({ "type": "task_list", "tasks": [{ "id": "1", "subject": "Do it", "status": "Completed" }] }),
            vec![F::TasksReplaced(vec![task("Do it", SessionTaskStatus::Completed)])],
        ),
        (
            json!({ "type": "subagent_started", "subagentId": "sub-1", "modelId": "x", "objective": "Look",
                "toolCallId": "call-1" }),
            vec![F::SubAgentStarted {
                subagent: sub(),
                model: Some("x".to_owned()),
                objective: "Look".to_owned(),
                call: Some(call()),
            }],
        ),
        (
            json!({ "type": "subagent_ended", "subagentId": "sub-1", "failure": "lost" }),
            vec![F::SubAgentEnded { subagent: sub(), failure: Some("lost".to_owned()) }],
        ),
        (json!({ "type": "log_chunk", "stream": "agent", "content": "x" }), vec![F::Noted]),
        (json!({ "type": "notice", "name": "api_retry", "summary": "Trying again" }), vec![F::Noted]),
    ]
}

#[test]
fn every_raw_event_maps_to_the_facts_in_the_table() {
    for (raw, facts) in table() {
        assert_eq!(mapped(raw.clone()).facts, facts, "{raw}");
    }
}

#[test]
fn table_covers_every_event_with_a_sequence() {
    let schema = serde_json::to_value(schemars::schema_for!(RawEvent)).unwrap();
    let kinds = schema["oneOf"].as_array().unwrap().iter();
    let all: BTreeSet<_> =
        kinds.map(|kind| kind["properties"]["type"]["const"].as_str().unwrap().to_owned()).collect();
    let mut named: BTreeSet<_> =
        table().iter().map(|(raw, _)| raw["type"].as_str().unwrap().to_owned()).collect();
    named.extend(["heartbeat".to_owned(), "run_exited".to_owned()]);
    assert_eq!(named, all);
}

#[test]
fn heartbeat_has_no_sequence() {
    assert_eq!(map(&RawEvent::Heartbeat { disk_full: false }, now()), None);
}

#[test]
fn subagent_requests_and_plans_stay_with_the_subagent() {
    for name in ["AskUserQuestion", "TodoWrite", "EnterPlanMode", "ExitPlanMode"] {
        let input = json!({ "question": "Which?", "todos": [], "plan": "1." });
        let raw = json!({ "type": "subagent_message", "subagentId": "sub-1",
            "content": { "kind": "tool_use", "toolCallId": "call-1", "toolName": name, "input": input } });
        let started = F::ToolStarted { call: call(), name: name.to_owned(), subagent: Some(sub()) };
        assert_eq!(mapped(raw).facts, vec![started], "{name}");
    }
}

#[test]
fn special_tool_with_invalid_input_is_an_ordinary_call() {
    for name in ["AskUserQuestion", "TodoWrite"] {
        for input in [json!({}), json!(7), json!({ "questions": [], "todos": "none" })] {
            assert_eq!(mapped(tool(name, &input)).facts, vec![started(name)], "{name} {input}");
        }
    }
    assert_eq!(mapped(tool(" ", &json!({}))).facts, vec![started("unknown")]);
    let shown = F::PlanShown { request: call(), content: None, timeout: None };
    assert_eq!(
        mapped(tool("ExitPlanMode", &json!({ "plan": 7 }))).facts,
        vec![started("ExitPlanMode"), shown]
    );
}

#[test]
fn messages_calls_results_and_logs_are_listed_separately() {
    let view = |raw| mapped(raw).view;
    let text = json!({ "kind": "text", "text": "Hi" });
    assert_eq!(
        view(json!({ "type": "assistant_message", "content": text })),
        Some(JournalView::Message { subagent: None })
    );
    assert_eq!(
        view(json!({ "type": "subagent_message", "subagentId": "sub-1", "content": text })),
        Some(JournalView::Message { subagent: Some(sub()) })
    );
    assert_eq!(view(tool("Bash", &json!({}))), Some(JournalView::ToolCall { call: call(), subagent: None }));
    assert_eq!(
        view(json!({ "type": "tool_result", "toolCallId": "call-1", "content": "x", "subagentId": "sub-1" })),
        Some(JournalView::ToolResult { called_at: None, subagent: Some(sub()) })
    );
    assert_eq!(
        view(json!({ "type": "log_chunk", "stream": "agent", "content": "x" })),
        Some(JournalView::Log)
    );
    assert_eq!(view(json!({ "type": "log_chunk", "stream": "agent", "content": "" })), None);
    assert_eq!(view(json!({ "type": "turn_completed", "turnId": "turn-1" })), None);
}

#[test]
fn activity_lines_show_what_a_reader_needs() {
    let line = |raw| {
        let line = mapped(raw).line.unwrap();
        (line.kind, line.summary)
    };
    let command = tool("Bash", &json!({ "timeout": 5, "command": "cargo test\n--all" }));
    assert_eq!(line(command), (ActivityItemType::ToolCallStart, "Bash: cargo test".to_owned()));
    let failed = json!({ "type": "tool_result", "toolCallId": "call-1", "content": "\n no such file\n", "isError": true });
    assert_eq!(line(failed), (ActivityItemType::ToolCallEnd, "Error: no such file".to_owned()));
    let silent = json!({ "type": "tool_result", "toolCallId": "call-1", "content": "" });
    assert_eq!(line(silent), (ActivityItemType::ToolCallEnd, "Done".to_owned()));
    let notice = json!({ "type": "notice", "name": "api_retry", "summary": "Trying again" });
    assert_eq!(line(notice), (ActivityItemType::Notice, "Trying again".to_owned()));
}

#[test]
fn events_that_report_work_add_their_own_activity_line() {
    let reports = [
        "assistant_message",
        "notice",
        "sidecar_ready",
        "subagent_ended",
        "subagent_message",
        "subagent_started",
        "tool_result",
        "validation_result",
    ];
    for (raw, _) in table() {
        let reports_work = reports.contains(&raw["type"].as_str().unwrap());
        assert_eq!(mapped(raw.clone()).line.is_some(), reports_work, "{raw}");
    }
}

fn written(key_decisions: Option<&str>) -> F {
    F::HandoffWritten(Box::new(pilothouse_domain::value::HandoffDocument::of_agent("s", "r", key_decisions)))
}

#[test]
fn agent_content_is_truncated_and_never_refused() {
    let long = "x".repeat(100_000);
    let F::HandedOver { reason } =
        mapped(json!({ "type": "voluntary_handoff", "reason": long, "summary": "", "remainingWork": "" }))
            .facts
            .remove(0)
    else {
        unreachable!("a handoff");
    };
    assert!(reason.chars().count() <= 1001, "{}", reason.len());
    let F::ContextNearingLimit { usage_percent } =
        mapped(json!({ "type": "context_nearing_limit", "usagePercent": long })).facts.remove(0)
    else {
        unreachable!("a warning");
    };
    assert!(usage_percent.chars().count() <= 21);
    let usage = json!({ "type": "usage_update", "meterId": "m", "modelId": "x", "costUsd": "a lot", "tokenUsage": TokenUsage::default() });
    let F::Used(report) = mapped(usage).facts.remove(0) else { unreachable!("usage") };
    assert_eq!(report.cost, pilothouse_domain::Usd::ZERO);
}
