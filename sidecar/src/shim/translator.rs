//! Translates the agent's events to raw events, without I/O and without a clock.

use std::collections::BTreeSet;

use pilothouse_domain::text::cut;
use pilothouse_domain::{SubAgentId, ToolCallId, TurnId};
use pilothouse_shim::event::{AgentEvent, Delegation, DelegationAction, ErrorReport, ToolCall, ToolPhase};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::{Value, json};

use crate::kit::notices::{agent_error, detailed_notice, guardrail, name_part, notice};

/// Most characters of an id.
const MAX_ID: usize = 200;

#[derive(Debug, Default)]
pub(super) struct Translator {
    turn: Option<TurnId>,
    /// Calls without a result.
    open: BTreeSet<ToolCallId>,
    subagents: BTreeSet<SubAgentId>,
    /// Calls that may run, in a project.
    permitted: BTreeSet<ToolCallId>,
    /// Whether each call needs a permission.
    is_governed: bool,
    last_text: String,
}

/// The id of a call or a decision as the control plane knows it.
pub(super) fn call_id(id: &str) -> Option<ToolCallId> {
    ToolCallId::parse(cut(id, MAX_ID)).ok()
}

impl Translator {
    pub(super) fn new(is_governed: bool) -> Self {
        Self { is_governed, ..Self::default() }
    }

    pub(super) fn begin_turn(&mut self, turn: TurnId) {
        self.turn = Some(turn);
        self.last_text.clear();
    }

    pub(super) fn permit(&mut self, call: ToolCallId) {
        self.permitted.insert(call);
    }

    /// Ends open calls and subagents with the turn.
    pub(super) fn end_turn(&mut self, why: &str) -> Vec<RawEvent> {
        self.turn = None;
        self.permitted.clear();
        let calls =
            std::mem::take(&mut self.open).into_iter().map(|id| result(id, why.to_owned().into(), true));
        let mut events: Vec<_> = calls.collect();
        let ended = std::mem::take(&mut self.subagents).into_iter();
        events.extend(
            ended.map(|subagent_id| RawEvent::SubagentEnded { subagent_id, failure: Some(why.to_owned()) }),
        );
        events
    }

    pub(super) fn text(&mut self, text: &str) -> Vec<RawEvent> {
        if text.trim().is_empty() {
            return Vec::new();
        }
        text.clone_into(&mut self.last_text);
        let content = AssistantContent::Text { text: text.to_owned().into() };
        vec![RawEvent::AssistantMessage { content, turn_id: self.turn.clone() }]
    }

    /// The summary of a completion, unless the agent said the same before.
    pub(super) fn summary(&mut self, summary: &str) -> Vec<RawEvent> {
        if summary.trim() == self.last_text.trim() { Vec::new() } else { self.text(summary) }
    }

    /// Events that only inform. The driver handles decisions, completions, crashes and the additions `checkpoint` and
    /// `usage`.
    pub(super) fn translate(&mut self, event: AgentEvent) -> Vec<RawEvent> {
        match event {
            AgentEvent::Status { message } => self.text(&message),
            AgentEvent::ToolCall(call) => self.tool_call(call),
            AgentEvent::Delegation(delegation) => self.delegation(delegation),
            AgentEvent::Artifact(artifact) => {
                let summary =
                    format!("the agent reports the artifact {} ({})", artifact.name, artifact.status);
                let mut detail = Value::Object(artifact.other);
                detail["artifactId"] = artifact.artifact_id.into();
                detail["name"] = artifact.name.into();
                detail["kind"] = artifact.kind.into();
                detail["status"] = artifact.status.into();
                detail["uri"] = artifact.uri.into();
                vec![detailed_notice("artifact", summary, detail)]
            }
            AgentEvent::Coherence(issue) => {
                let detail = json!({ "issueId": issue.issue_id, "description": issue.description,
                    "category": issue.category, "severity": issue.severity,
                    "affectedWorkstreams": issue.affected_workstreams,
                    "affectedArtifactIds": issue.affected_artifact_ids });
                vec![detailed_notice("coherence_issue", issue.title, detail)]
            }
            AgentEvent::Error(report) => vec![error(&report)],
            AgentEvent::Guardrail { guardrail_name, level, tripped, message } => {
                vec![guardrail(&guardrail_name, tripped, &message, Some(&level))]
            }
            AgentEvent::Progress { description, progress_pct, .. } => {
                let percent = progress_pct.map(|percent| format!(" {percent:.0} %")).unwrap_or_default();
                vec![log("progress", format!("{description}{percent}\n"))]
            }
            AgentEvent::RawProvider { provider_name, event_type, payload } => {
                vec![log(&name_part(&provider_name, 50), format!("{event_type} {payload}\n"))]
            }
            // The adapter confirms steps of the life cycle itself.
            AgentEvent::Lifecycle { .. } | AgentEvent::Decision(_) | AgentEvent::Completion(_) => Vec::new(),
        }
    }

    fn tool_call(&mut self, call: ToolCall) -> Vec<RawEvent> {
        let Some(id) = call_id(&call.tool_call_id) else { return Vec::new() };
        let mut events = Vec::new();
        let has_ended = matches!(call.phase, ToolPhase::Completed | ToolPhase::Failed);
        if !self.open.contains(&id) {
            self.open.insert(id.clone());
            let content = AssistantContent::ToolUse {
                tool_call_id: id.clone(),
                tool_name: call.tool_name.clone(),
                input: call.input,
            };
            events.push(RawEvent::AssistantMessage { content, turn_id: self.turn.clone() });
        }
        let runs = call.phase != ToolPhase::Requested && call.phase != ToolPhase::Failed;
        if runs && self.is_governed && self.permitted.insert(id.clone()) {
            let summary = format!("the shim ran {} without asking; report it to its author", call.tool_name);
            events.push(notice("tool_without_approval", summary));
        }
        if has_ended {
            self.open.remove(&id);
            let output = match call.output {
                Some(Value::String(text)) => Content::Text(text),
                Some(value) => Content::Json(value),
                None => Content::Text(String::new()),
            };
            events.push(result(id, output, call.phase == ToolPhase::Failed));
        }
        events
    }

    fn delegation(&mut self, delegation: Delegation) -> Vec<RawEvent> {
        let Ok(subagent_id) = SubAgentId::parse(cut(&delegation.child_agent_id, MAX_ID)) else {
            return Vec::new();
        };
        match delegation.action {
            DelegationAction::Spawned if self.subagents.insert(subagent_id.clone()) => {
                let objective =
                    if delegation.reason.is_empty() { delegation.child_role } else { delegation.reason };
                vec![RawEvent::SubagentStarted { subagent_id, tool_call_id: None, model_id: None, objective }]
            }
            DelegationAction::Returned if self.subagents.remove(&subagent_id) => {
                vec![RawEvent::SubagentEnded { subagent_id, failure: None }]
            }
            DelegationAction::Handoff => {
                let summary =
                    format!("the agent hands over to {}: {}", delegation.child_role, delegation.reason);
                vec![notice("delegation", summary)]
            }
            DelegationAction::Spawned | DelegationAction::Returned => Vec::new(),
        }
    }
}

pub(super) fn error(report: &ErrorReport) -> RawEvent {
    let detail = json!({ "severity": report.severity, "category": report.category,
        "recoverable": report.recoverable, "errorCode": report.error_code });
    agent_error(&report.message, detail)
}

fn result(tool_call_id: ToolCallId, content: Content, is_error: bool) -> RawEvent {
    RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id: None }
}

fn log(stream: &str, content: String) -> RawEvent {
    let stream = if stream.is_empty() { "provider" } else { stream };
    RawEvent::LogChunk { stream: stream.to_owned(), content }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(translator: &mut Translator, event: Value) -> Vec<String> {
        let event: AgentEvent = serde_json::from_value(event).unwrap();
        translator.translate(event).iter().map(|event| event.name().to_owned()).collect()
    }

    fn call(phase: &str) -> Value {
        json!({ "type": "tool_call", "toolCallId": "c", "toolName": "t", "phase": phase, "input": {},
            "output": "x", "approved": true })
    }

    #[test]
    fn call_is_reported_once_whatever_phases_arrive() {
        let mut translator = Translator::default();
        assert_eq!(translated(&mut translator, call("requested")), ["assistant_message"]);
        assert_eq!(translated(&mut translator, call("running")), [] as [&str; 0]);
        assert_eq!(translated(&mut translator, call("completed")), ["tool_result"]);
        let alone = translated(&mut Translator::default(), call("failed"));
        assert_eq!(alone, ["assistant_message", "tool_result"]);
    }

    #[test]
    fn call_without_permission_is_noticed_in_a_project() {
        let mut translator = Translator::new(true);
        translator.permit(call_id("c").unwrap());
        assert_eq!(translated(&mut translator, call("completed")), ["assistant_message", "tool_result"]);
        translator.end_turn("over");
        assert_eq!(translated(&mut translator, call("running")), ["assistant_message", "notice"]);
        assert_eq!(translator.end_turn("over").len(), 1, "its result");
    }

    #[test]
    fn text_without_words_is_no_message() {
        let status = json!({ "type": "status", "message": " \n" });
        assert_eq!(translated(&mut Translator::default(), status), [] as [&str; 0]);
    }

    #[test]
    fn summary_that_was_said_before_is_not_repeated() {
        let mut translator = Translator::default();
        translator.text("done ");
        assert_eq!((translator.summary("done").len(), translator.summary("other").len()), (0, 1));
    }
}
