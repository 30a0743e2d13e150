//! Maps a journal entry of a session to S2's events. An exhaustive table for raw events is here; the one for events of the domain is
//! [`EventClass::of`].

use pilothouse_api::project_stream::AgentEventContent as C;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::routing::{ErrorCategory, ErrorTraits, EventClass, ToolCallPhase};
use pilothouse_domain::text::cut;
use pilothouse_domain::value::ProjectMembership;
use pilothouse_domain::{SessionEvent, Timestamp};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::AssistantContent;
use serde_json::{Value, json};

use super::artifacts;
use crate::journal_views;
use crate::texts::activity_of;

/// Most characters of a text in an event. The records of the session have all of it.
const MAX_TEXT: usize = 4000;
/// Most characters of a name that an agent reports.
const MAX_NAME: usize = 200;
/// Most bytes of the input of a tool call.
const MAX_INPUT: usize = 8 * 1024;

/// The events of an entry of an agent's session, in order. Decisions are not among them.
pub(super) fn contents(entry: &JournalEntry, of: &ProjectMembership) -> Vec<C> {
    let raw = journal_views::raw_event(entry);
    let counts = entry.ignored_reason.as_deref().is_none_or(|reason| reason == "deferred");
    let of_agent = raw.as_ref().filter(|_| counts).and_then(|raw| of_raw(raw, of));
    let mut contents: Vec<C> = of_agent.into_iter().collect();
    contents.extend(entry.events.iter().filter_map(|event| of_event(event, raw.as_ref(), entry.at)));
    contents
}

/// The event for a raw event that no event of the domain shows.
fn of_raw(event: &RawEvent, of: &ProjectMembership) -> Option<C> {
    use RawEvent as E;
    match event {
        E::AssistantMessage { content, .. } | E::SubagentMessage { content, .. } => match content {
            // Text is what the agent did not report by a tool (S2, "Event validation pipeline").
            AssistantContent::Text { text } => Some(C::Status { message: cut(&text.text(), MAX_TEXT) }),
            AssistantContent::Thinking { text } => {
                Some(logged(event, json!({ "thinking": cut(&text.text(), MAX_TEXT) })))
            }
            AssistantContent::ToolUse { .. } => None,
        },
        E::UsageUpdate(usage) => serde_json::to_value(usage).ok().map(|usage| logged(event, usage)),
        E::LogChunk { stream, content } => {
            Some(logged(event, json!({ "stream": stream, "content": cut(content, MAX_TEXT) })))
        }
        E::Notice { name, summary, detail } => {
            let artifact = detail.as_ref().filter(|_| name == "artifact");
            let artifact = artifact.and_then(|fields| artifacts::reported(fields, of));
            Some(artifact.unwrap_or_else(|| of_notice(name, cut(summary, MAX_TEXT), detail.as_ref())))
        }
        // Events of the domain and decisions show them, or they acknowledge a command.
        E::ToolResult { .. }
        | E::ContextNearingLimit { .. }
        | E::ContextExhausted {}
        | E::HandoffDocument(_)
        | E::VoluntaryHandoff { .. }
        | E::SessionEnd(_)
        | E::InterruptAck(_)
        | E::PauseAck(_)
        | E::ResumeAck(_)
        | E::StopAck(_)
        | E::ReloadConfigAck(_)
        | E::AdjustAck(_)
        | E::SidecarReady { .. }
        | E::BeginAck(_)
        | E::AnswerAck(_)
        | E::ValidationAck(_)
        | E::ValidationResult { .. }
        | E::MessageAck { .. }
        | E::CommandRefused { .. }
        | E::TurnStarted { .. }
        | E::TurnCompleted { .. }
        | E::AgentSettings { .. }
        | E::Conversations(_)
        | E::QuestionAsked { .. }
        | E::BudgetExceeded { .. }
        | E::QuotaExceeded { .. }
        | E::ModelUnavailable { .. }
        | E::Deliverables { .. }
        | E::TaskList { .. }
        | E::SubagentStarted { .. }
        | E::SubagentEnded { .. }
        | E::Heartbeat { .. }
        | E::RunExited(_) => None,
    }
}

fn logged(event: &RawEvent, payload: Value) -> C {
    C::RawProvider { event_type: event.name().to_owned(), payload }
}

/// Adapters report errors and denials as notices with these names. `detail` has their fields in S2.
fn of_notice(name: &str, message: String, detail: Option<&Value>) -> C {
    let given = |field: &str| detail.and_then(|detail| detail.get(field));
    match name {
        "guardrail" => C::Guardrail {
            guardrail_name: cut(given("name").and_then(Value::as_str).unwrap_or("guardrail"), MAX_NAME),
            // Shims may send other levels than those of S2.
            level: given("level").and_then(|level| serde_json::from_value(level.clone()).ok()),
            action: None,
            tripped: given("tripped").and_then(Value::as_bool).unwrap_or(true),
            message,
        },
        "agent_error" => {
            let read = |field| given(field).cloned().unwrap_or_default();
            let traits = ErrorTraits {
                severity: serde_json::from_value(read("severity")).unwrap_or(Severity::Medium),
                recoverable: read("recoverable").as_bool().unwrap_or(true),
                // Shims may send other categories than those of S2.
                category: serde_json::from_value(read("category")).unwrap_or(ErrorCategory::Internal),
            };
            C::Error { message, traits }
        }
        "permission_denied" => C::Guardrail {
            guardrail_name: "permission".to_owned(),
            level: None,
            action: None,
            tripped: true,
            message,
        },
        "api_error" | "command_failed" | "compaction_failed" | "conversation_lost" => {
            let category =
                if name == "api_error" { ErrorCategory::Provider } else { ErrorCategory::Internal };
            C::Error {
                message,
                traits: ErrorTraits { severity: Severity::Medium, recoverable: true, category },
            }
        }
        // S2: the events of the agent come faster than they are sent.
        "backpressure" => C::Error {
            message,
            traits: ErrorTraits {
                severity: Severity::Warning,
                recoverable: true,
                category: ErrorCategory::Internal,
            },
        },
        _ => C::Status { message },
    }
}

fn of_event(event: &SessionEvent, raw: Option<&RawEvent>, at: Timestamp) -> Option<C> {
    let class = EventClass::of(event)?;
    let words = || {
        let line = activity_of(event, at);
        line.map_or_else(|| in_words(event), |line| line.detail.unwrap_or(line.summary))
    };
    Some(match class {
        EventClass::Status => C::Status { message: words() },
        EventClass::ToolCall(phase) => return tool_call(event, phase, raw),
        EventClass::Completion(outcome) => C::Completion { summary: words(), outcome },
        EventClass::Error(traits) => C::Error { message: words(), traits },
        EventClass::Delegation(action) => {
            C::Delegation { action, child_agent_id: child_of(event), reason: words() }
        }
        EventClass::Lifecycle(action) => C::Lifecycle { action, reason: words() },
        EventClass::Progress => progress(event, words()),
        EventClass::Artifact => return artifact(event),
        EventClass::Coherence => return coherence(event),
        EventClass::Guardrail => return guardrail(event, words()),
    })
}

/// The text of an event without a line of its own in the activity.
fn in_words(event: &SessionEvent) -> String {
    use SessionEvent as E;
    match event {
        E::SubAgentStarted { sub_agent_id, .. } => format!("The subagent {sub_agent_id} started"),
        E::SubAgentCompleted { sub_agent_id } => format!("The subagent {sub_agent_id} returned its result"),
        E::SubAgentFailed { sub_agent_id, failure_reason } => {
            format!("The subagent {sub_agent_id} failed: {failure_reason}")
        }
        E::MessageDelivered { .. } => "The agent received a message".to_owned(),
        E::Restarted { continuation, .. } => format!("The agent starts again, in session {continuation}"),
        E::ApiTaskCreated { task, .. } => format!("The agent created the task \"{}\"", task.title),
        E::LearningRecorded { learning, .. } => {
            format!("The agent learned: {}", cut(learning.content.as_str(), MAX_TEXT))
        }
        _ => event.name().to_owned(),
    }
}

fn tool_call(event: &SessionEvent, phase: ToolCallPhase, raw: Option<&RawEvent>) -> Option<C> {
    let (call, tool_name, sub_agent_id) = match event {
        SessionEvent::ToolCallStarted { tool_call_id, tool_name, sub_agent_id } => {
            (tool_call_id, Some(tool_name.clone()), sub_agent_id)
        }
        SessionEvent::ToolCallCompleted { tool_call_id, tool_name, sub_agent_id, .. } => {
            (tool_call_id, tool_name.clone(), sub_agent_id)
        }
        _ => return None,
    };
    let (mut input, mut output) = (None, None);
    match raw {
        Some(
            RawEvent::AssistantMessage {
                content: AssistantContent::ToolUse { tool_call_id, input: given, .. },
                ..
            }
            | RawEvent::SubagentMessage {
                content: AssistantContent::ToolUse { tool_call_id, input: given, .. },
                ..
            },
        ) if tool_call_id == call => {
            input = Some(given.clone()).filter(|input| input.to_string().len() <= MAX_INPUT);
        }
        Some(RawEvent::ToolResult { tool_call_id, content, .. }) if tool_call_id == call => {
            output = Some(cut(&content.text(), MAX_TEXT));
        }
        _ => {}
    }
    let (tool_call_id, sub_agent_id) = (call.clone(), sub_agent_id.clone());
    Some(C::ToolCall { tool_call_id, tool_name, phase, input, output, sub_agent_id })
}

fn artifact(event: &SessionEvent) -> Option<C> {
    let SessionEvent::ArtifactReported { report } = event else { return None };
    Some(artifacts::stored(report))
}

fn coherence(event: &SessionEvent) -> Option<C> {
    let SessionEvent::CoherenceIssueRaised { issue_id, finding } = event else { return None };
    Some(C::Coherence {
        issue_id: *issue_id,
        title: finding.title.clone(),
        description: finding.description.clone(),
        category: finding.category,
        severity: finding.severity,
        affected_workstreams: finding.affected_workstreams.clone(),
        affected_artifact_ids: finding.affected_artifact_ids.clone(),
    })
}

fn guardrail(event: &SessionEvent, message: String) -> Option<C> {
    let SessionEvent::GuardrailTripped { subject, guardrail } = event else { return None };
    Some(C::Guardrail {
        guardrail_name: guardrail.name.to_string(),
        level: Some(subject.level()),
        action: Some(guardrail.action),
        tripped: true,
        message,
    })
}

fn child_of(event: &SessionEvent) -> Option<String> {
    use SessionEvent as E;
    match event {
        E::SubAgentStarted { sub_agent_id, .. }
        | E::SubAgentCompleted { sub_agent_id }
        | E::SubAgentFailed { sub_agent_id, .. } => Some(sub_agent_id.to_string()),
        E::WorkHandedOn { continuation, .. } => Some(continuation.to_string()),
        _ => None,
    }
}

fn progress(event: &SessionEvent, description: String) -> C {
    let (operation_id, done, all) = match event {
        SessionEvent::TaskListUpdated { task_count, completed_count } => {
            ("tasks", *completed_count as u64, *task_count as u64)
        }
        SessionEvent::DeliverablesChanged { pending, passed, blocked } => {
            let counts = [pending, passed, blocked].map(|count| u64::from(*count));
            ("deliverables", counts[1], counts.iter().sum())
        }
        _ => ("work", 0, 0),
    };
    let percent = (done * 100).checked_div(all).and_then(|percent| u8::try_from(percent.min(100)).ok());
    C::Progress { operation_id: operation_id.to_owned(), description, progress_pct: percent }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::escalation::{GuardrailAction, GuardrailLevel};

    use super::*;

    fn of() -> ProjectMembership {
        let id = "01890a5d-ac96-774b-bcce-b302099a8058";
        serde_json::from_value(json!({ "projectId": id, "agentId": id, "workstream": "api" })).unwrap()
    }

    /// The type of the event for a raw event; `-` if it has none.
    fn type_of(raw: Value) -> String {
        let raw: RawEvent = serde_json::from_value(raw).unwrap();
        of_raw(&raw, &of()).map_or_else(|| "-".to_owned(), |content| content.event_type().to_string())
    }

    #[test]
    fn raw_events_have_the_types_of_the_specification() {
        let said = |kind| json!({ "type": "assistant_message", "content": { "kind": kind, "text": "I think A is best" } });
        let notice = |name| json!({ "type": "notice", "name": name, "summary": "s" });
        let call = json!({ "kind": "tool_use", "toolCallId": "c", "toolName": "Bash", "input": {} });
        let artifact =
            |detail: Value| json!({ "type": "notice", "name": "artifact", "summary": "s", "detail": detail });
        for (raw, expected) in [
            (said("text"), "status"),
            (said("thinking"), "raw_provider"),
            (
                json!({ "type": "subagent_message", "subagentId": "s", "content": { "kind": "text", "text": "x" } }),
                "status",
            ),
            (json!({ "type": "assistant_message", "content": call }), "-"),
            (json!({ "type": "tool_result", "toolCallId": "c", "content": "x" }), "-"),
            (json!({ "type": "log_chunk", "stream": "agent", "content": "x" }), "raw_provider"),
            (notice("permission_denied"), "guardrail"),
            (notice("api_error"), "error"),
            (notice("backpressure"), "error"),
            (notice("unreported_files"), "status"),
            (notice("compacted"), "status"),
            (artifact(json!({ "artifactId": "a", "name": "report.md" })), "artifact"),
            (artifact(json!({ "truncated": true, "blob": {} })), "status"),
            (json!({ "type": "task_list", "tasks": [] }), "-"),
            (json!({ "type": "turn_started", "turnId": "t" }), "-"),
        ] {
            assert_eq!(type_of(raw.clone()), expected, "{raw}");
        }
    }

    #[test]
    fn reported_errors_and_guardrails_keep_their_traits() {
        let notice = |name: &str, detail: Value| {
            let raw = json!({ "type": "notice", "name": name, "summary": "s", "detail": detail });
            of_raw(&serde_json::from_value(raw).unwrap(), &of()).unwrap()
        };
        let error = json!({ "severity": "high", "category": "provider", "recoverable": false });
        let C::Error { traits, .. } = notice("agent_error", error) else { panic!() };
        let expected =
            ErrorTraits { severity: Severity::High, recoverable: false, category: ErrorCategory::Provider };
        assert_eq!(traits, expected);
        let C::Error { traits, .. } = notice("agent_error", json!({ "category": "moon" })) else { panic!() };
        assert_eq!((traits.recoverable, traits.category), (true, ErrorCategory::Internal));
        let passed = json!({ "name": "no cards", "tripped": false });
        let C::Guardrail { guardrail_name, tripped, level, .. } = notice("guardrail", passed) else {
            panic!()
        };
        assert_eq!((&*guardrail_name, tripped, level), ("no cards", false, None));
        let of_input = json!({ "name": "no cards", "tripped": true, "level": "input" });
        let C::Guardrail { level, .. } = notice("guardrail", of_input) else { panic!() };
        assert_eq!(level, Some(GuardrailLevel::Input));
    }

    #[test]
    fn guardrail_of_the_brief_has_its_level_and_action() {
        for (subject, expected, what) in [
            ("message", GuardrailLevel::Input, "refused a message to the agent"),
            ("output", GuardrailLevel::Output, "does not allow the output"),
        ] {
            let event = json!({ "type": "SessionGuardrailTrippedEvent", "subject": subject,
                "guardrail": { "name": "no cards", "action": "block", "description": "Cards are secret" } });
            let event: SessionEvent = serde_json::from_value(event).unwrap();
            let content = of_event(&event, None, Timestamp::from_millis(0));
            let Some(C::Guardrail { guardrail_name, level, action, tripped, message }) = content else {
                panic!("{subject}")
            };
            assert_eq!((&*guardrail_name, tripped), ("no cards", true));
            assert_eq!((level, action), (Some(expected), Some(GuardrailAction::Block)));
            assert_eq!(message, format!("The guardrail \"no cards\" {what}: Cards are secret"));
        }
    }

    #[test]
    fn tool_call_has_its_input_and_its_output() {
        let call = json!({ "kind": "tool_use", "toolCallId": "c", "toolName": "Bash", "input": { "command": "ls" } });
        let raw: RawEvent =
            serde_json::from_value(json!({ "type": "assistant_message", "content": call })).unwrap();
        let event = json!({ "type": "ToolCallStartedEvent", "toolCallId": "c", "toolName": "Bash", "subAgentId": null });
        let event: SessionEvent = serde_json::from_value(event).unwrap();
        let at = Timestamp::from_millis(0);
        let content = serde_json::to_value(of_event(&event, Some(&raw), at).unwrap()).unwrap();
        assert_eq!(
            content,
            json!({
                "type": "tool_call", "toolCallId": "c", "toolName": "Bash", "phase": "requested",
                "input": { "command": "ls" },
            })
        );
        let raw = json!({ "type": "tool_result", "toolCallId": "c", "content": "a.txt", "isError": true });
        let raw: RawEvent = serde_json::from_value(raw).unwrap();
        let event = json!({ "type": "ToolCallCompletedEvent", "toolCallId": "c", "toolName": "Bash", "status": "Error", "subAgentId": null });
        let event: SessionEvent = serde_json::from_value(event).unwrap();
        let content = serde_json::to_value(of_event(&event, Some(&raw), at).unwrap()).unwrap();
        assert_eq!(
            content,
            json!({
                "type": "tool_call", "toolCallId": "c", "toolName": "Bash", "phase": "failed",
                "output": "a.txt",
            })
        );
    }

    #[test]
    fn progress_is_a_percentage() {
        let of = |count, done| {
            let event = SessionEvent::TaskListUpdated { task_count: count, completed_count: done };
            let Some(C::Progress { progress_pct, .. }) = of_event(&event, None, Timestamp::from_millis(0))
            else {
                panic!()
            };
            progress_pct
        };
        assert_eq!((of(3, 1), of(2, 2), of(0, 0)), (Some(33), Some(100), None));
    }

    fn content_of(event: Value) -> Value {
        let event: SessionEvent = serde_json::from_value(event).unwrap();
        serde_json::to_value(of_event(&event, None, Timestamp::from_millis(0)).unwrap()).unwrap()
    }

    #[test]
    fn events_have_the_fields_of_the_specification() {
        let turn = json!({
            "type": "AgentSessionTurnCompletedEvent", "turnCount": 3, "lastTurnAt": "2026-01-01T00:00:00Z",
            "outcome": "max_iterations",
        });
        let summary = "Idle: turn 3 is over, at the limit of its iterations";
        assert_eq!(
            content_of(turn),
            json!({ "type": "completion", "summary": summary, "outcome": "max_turns" })
        );
        assert_eq!(
            content_of(json!({ "type": "SessionPausedEvent" })),
            json!({ "type": "lifecycle", "action": "paused", "reason": "Paused" })
        );
        assert_eq!(
            content_of(json!({ "type": "SessionTaskListUpdatedEvent", "taskCount": 3, "completedCount": 1 })),
            json!({
                "type": "progress", "operationId": "tasks", "description": "1 of 3 tasks are done",
                "progressPct": 33,
            })
        );
        let log: RawEvent =
            serde_json::from_value(json!({ "type": "log_chunk", "stream": "agent", "content": "x" }))
                .unwrap();
        assert_eq!(
            serde_json::to_value(of_raw(&log, &of()).unwrap()).unwrap(),
            json!({
                "type": "raw_provider", "eventType": "log_chunk",
                "payload": { "stream": "agent", "content": "x" },
            })
        );
        let message = "The disk of the worker is full; the agent waits until there is space";
        assert_eq!(
            content_of(json!({ "type": "SessionDiskFullEvent", "disk": "worker" })),
            json!({
                "type": "error", "message": message, "severity": "high", "recoverable": true,
                "category": "internal",
            })
        );
        let id = "01890a5d-ac96-774b-bcce-b302099a8058";
        let finding = json!({
            "title": "Units differ", "description": "The guide says dollars.", "category": "contradiction",
            "severity": "medium", "affectedWorkstreams": ["api", "docs"], "affectedArtifactIds": [id],
        });
        let mut raised = json!({
            "type": "CoherenceIssueRaisedEvent", "issueId": id, "affectedAgentIds": [id],
            "source": { "type": "similarity", "percent": 90 }, "evidenceAt": "2026-01-01T00:00:00Z",
        });
        raised.as_object_mut().unwrap().extend(finding.as_object().unwrap().clone());
        let mut expected = json!({ "type": "coherence", "issueId": id });
        expected.as_object_mut().unwrap().extend(finding.as_object().unwrap().clone());
        assert_eq!(content_of(raised), expected);
    }

    #[test]
    fn completions_and_calls_say_how_they_ended() {
        let output = json!({
            "type": "AgentSessionOutputReadyEvent", "outputId": "01890a5d-ac96-774b-bcce-b302099a8058",
            "filesChanged": 1, "testsAdded": 0, "allTestsPassing": true,
        });
        let stopped = |cause: &str| json!({ "type": "SessionAutoContinueStoppedEvent", "cause": cause, "reason": null, "continuations": 1 });
        for (event, outcome) in [
            (output, "success"),
            (stopped("budget-exhausted"), "partial"),
            (stopped("validation-unavailable"), "partial"),
            (stopped("not-delivered"), "partial"),
            (stopped("max-continuations"), "max_turns"),
        ] {
            let content = content_of(event.clone());
            assert_eq!(
                (&content["type"], &content["outcome"]),
                (&json!("completion"), &json!(outcome)),
                "{event}"
            );
        }
        let call = json!({
            "type": "ToolCallCompletedEvent", "toolCallId": "c", "toolName": "Bash", "status": "Success",
            "subAgentId": null,
        });
        assert_eq!(
            content_of(call),
            json!({ "type": "tool_call", "toolCallId": "c", "toolName": "Bash", "phase": "completed" })
        );
    }

    #[test]
    fn raw_events_have_the_fields_of_the_specification() {
        let content = |raw: Value| {
            let raw: RawEvent = serde_json::from_value(raw).unwrap();
            serde_json::to_value(of_raw(&raw, &of()).unwrap()).unwrap()
        };
        let text = json!({ "kind": "text", "text": "I think A is best" });
        assert_eq!(
            content(json!({ "type": "assistant_message", "content": text })),
            json!({ "type": "status", "message": "I think A is best" })
        );
        let notice = |name: &str, detail: Value| {
            content(json!({ "type": "notice", "name": name, "summary": "What happened", "detail": detail }))
        };
        assert_eq!(
            notice("guardrail", json!({ "name": "no cards", "level": "output", "tripped": false })),
            json!({
                "type": "guardrail", "guardrailName": "no cards", "level": "output", "tripped": false,
                "message": "What happened",
            })
        );
        let traits = json!({ "severity": "high", "category": "provider", "recoverable": false });
        let mut expected = json!({ "type": "error", "message": "What happened" });
        expected.as_object_mut().unwrap().extend(traits.as_object().unwrap().clone());
        assert_eq!(notice("agent_error", traits), expected);
    }

    #[test]
    fn delegation_names_the_subagent_or_the_next_session() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8058";
        let subagent = json!({ "subAgentId": "s", "modelId": null, "failureReason": "AgentError" });
        let handed_on = json!({ "chainId": id, "continuation": id, "messageIds": [] });
        for (name, mut fields, action, child, reason) in [
            ("SubAgentSessionStartedEvent", subagent.clone(), "spawned", "s", "The subagent s started"),
            (
                "SubAgentSessionCompletedEvent",
                subagent.clone(),
                "returned",
                "s",
                "The subagent s returned its result",
            ),
            ("SubAgentSessionFailedEvent", subagent, "returned", "s", "The subagent s failed: AgentError"),
            (
                "SessionWorkHandedOnEvent",
                handed_on,
                "handoff",
                id,
                "Session 01890a5d-ac96-774b-bcce-b302099a8058 continues the work",
            ),
        ] {
            fields["type"] = name.into();
            let content = content_of(fields);
            assert_eq!(
                (&content["type"], &content["action"], &content["childAgentId"], &content["reason"]),
                (&json!("delegation"), &json!(action), &json!(child), &json!(reason))
            );
        }
    }
}
