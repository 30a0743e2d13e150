//! Requests to a shim and its responses. Fields that S2 does not define are marked as additions; shims may ignore them.

use pilothouse_domain::project::AgentStatus;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The content of the bootstrap file. The shim reads the file at its start, and deletes it. Not `Debug`, so that no log
/// line contains a token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    pub backend_url: String,
    pub backend_token: String,
    pub token_expires_at: String,
    pub agent_id: String,
    pub artifact_upload_endpoint: String,
    /// An addition: every request to the shim has this token (`Authorization: Bearer …`). A shim refuses requests
    /// without it, so that programs of the agent cannot approve their own calls.
    pub request_token: String,
    /// An addition: the shim may send drafts ([`crate::event::Draft`]) on its stream of events.
    #[serde(default)]
    pub accepts_drafts: bool,
}

/// The capabilities of a shim's agent that are used. All are optional.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginCapabilities {
    /// `/pause` returns the exact state of the execution.
    pub supports_pause: bool,
    /// `/resume` restores the exact state of the execution.
    pub supports_resume: bool,
    /// An addition: the shim reports the tokens of each model call (`raw_provider` event `usage`).
    pub reports_usage: bool,
}

/// An addition to the response to `GET /health`, because S2 has no endpoint for capabilities.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plugin {
    pub name: String,
    pub version: String,
    pub capabilities: PluginCapabilities,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Healthy,
    Degraded,
    Unhealthy,
}

/// The parts of the response to `GET /health` that are used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    pub status: HealthStatus,
    /// The number of events that wait for a connection. Not parsed, so that a wrong value does not fail the health check.
    #[serde(default)]
    pub pending_event_buffer_size: Value,
    #[serde(default)]
    pub plugin: Plugin,
}

/// The response to `/spawn` and `/resume`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentHandle {
    pub id: String,
    pub plugin_name: String,
    pub status: AgentStatus,
    pub session_id: String,
}

/// `SerializedAgentState`, from which a shim continues its agent. Only the shim interprets the checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentState(Map<String, Value>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the state of an agent must be an object with `checkpoint` and `sessionId`")]
pub struct InvalidState;

impl TryFrom<Value> for AgentState {
    type Error = InvalidState;

    fn try_from(value: Value) -> Result<Self, InvalidState> {
        let Value::Object(fields) = value else { return Err(InvalidState) };
        let fits = fields.get("checkpoint").is_some_and(Value::is_object)
            && fields.get("sessionId").is_some_and(Value::is_string);
        if fits { Ok(Self(fields)) } else { Err(InvalidState) }
    }
}

impl AgentState {
    /// The sequence of the last event before this state.
    pub fn last_sequence(&self) -> Option<u64> {
        self.0.get("lastSequence").and_then(Value::as_u64)
    }

    /// The body of `/resume`: this state with the current brief. `input` is an addition: the text of
    /// the next turn.
    pub fn to_resume(&self, brief: &Value, input: Option<&str>) -> Value {
        let mut body = self.0.clone();
        body.insert("briefSnapshot".to_owned(), brief.clone());
        if let Some(input) = input {
            body.insert("input".to_owned(), Value::String(input.to_owned()));
        }
        Value::Object(body)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResolutionType {
    Approve,
    Reject,
    Modify,
    ChooseOption,
}

/// The answer to a decision of the agent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resolution {
    pub resolution_type: ResolutionType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_option_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified_args: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub always_approve: bool,
    pub rationale: String,
    /// S2 requires one. The control plane classifies calls itself, and agents do not depend on it.
    action_kind: &'static str,
}

impl Resolution {
    fn new(resolution_type: ResolutionType, rationale: impl Into<String>) -> Self {
        Self {
            resolution_type,
            chosen_option_id: None,
            modified_args: None,
            always_approve: false,
            rationale: rationale.into(),
            action_kind: "review",
        }
    }

    pub fn approve() -> Self {
        Self::new(ResolutionType::Approve, "")
    }

    /// Approves this call and all later calls of the tool in this session.
    pub fn always_approve() -> Self {
        Self { always_approve: true, ..Self::approve() }
    }

    pub fn reject(rationale: impl Into<String>) -> Self {
        Self::new(ResolutionType::Reject, rationale)
    }

    /// Approves the call with other arguments.
    pub fn modify(arguments: Value) -> Self {
        Self { modified_args: Some(arguments), ..Self::new(ResolutionType::Modify, "") }
    }

    pub fn choose(option: impl Into<String>, rationale: impl Into<String>) -> Self {
        Self { chosen_option_id: Some(option.into()), ..Self::new(ResolutionType::ChooseOption, rationale) }
    }
}

/// A message for the running agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextInjection {
    pub content: String,
    pub format: &'static str,
    pub snapshot_version: u64,
    pub estimated_tokens: u64,
    pub priority: &'static str,
}

impl ContextInjection {
    /// A text that the agent must get.
    pub fn required(content: impl Into<String>) -> Self {
        let content = content.into();
        let estimated_tokens = content.len() as u64 / 3;
        Self { content, format: "plain", snapshot_version: 0, estimated_tokens, priority: "required" }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KillRequest {
    pub grace: bool,
    pub grace_timeout_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KillResponse {
    /// Present if the agent can be continued later.
    #[serde(default)]
    pub state: Option<Value>,
    #[serde(default)]
    pub artifacts_extracted: u64,
    pub clean_shutdown: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn state_needs_a_checkpoint_and_keeps_unknown_fields() {
        assert!(AgentState::try_from(json!({ "sessionId": "s" })).is_err());
        let state = json!({ "sessionId": "s", "checkpoint": { "sdk": "x" }, "lastSequence": 7, "other": 1 });
        let state = AgentState::try_from(state).unwrap();
        assert_eq!(state.last_sequence(), Some(7));
        let body = state.to_resume(&json!({ "agentId": "a" }), Some("go on"));
        assert_eq!((&body["other"], &body["input"]), (&json!(1), &json!("go on")));
        assert_eq!(body["briefSnapshot"], json!({ "agentId": "a" }));
    }

    #[test]
    fn every_field_of_a_state_is_sent_with_the_resume() {
        let state = json!({
            "agentId": "a", "pluginName": "mine", "sessionId": "s",
            "checkpoint": { "sdk": "mine", "position": 7 }, "briefSnapshot": { "agentId": "a" },
            "conversationSummary": "Half of it is done.", "pendingDecisionIds": ["d1"], "lastSequence": 7,
            "serializedAt": "2026-01-01T00:00:00Z", "serializedBy": "pause", "estimatedSizeBytes": 300,
        });
        let brief = json!({ "agentId": "a", "description": "Also the tests" });
        let body = AgentState::try_from(state.clone()).unwrap().to_resume(&brief, None);
        let mut expected = state;
        expected["briefSnapshot"] = brief;
        assert_eq!(body, expected);
    }

    #[test]
    fn kill_has_the_fields_of_the_specification() {
        let request = KillRequest { grace: true, grace_timeout_ms: 10_000 };
        let sent = serde_json::to_value(request).unwrap();
        assert_eq!(sent, json!({ "grace": true, "graceTimeoutMs": 10_000 }));
        let state = json!({ "sessionId": "s", "checkpoint": {} });
        let response = json!({ "state": state, "artifactsExtracted": 2, "cleanShutdown": true });
        let response: KillResponse = serde_json::from_value(response).unwrap();
        let expected = KillResponse { state: Some(state), artifacts_extracted: 2, clean_shutdown: true };
        assert_eq!(response, expected);
        let least: KillResponse = serde_json::from_value(json!({ "cleanShutdown": false })).unwrap();
        assert_eq!(least, KillResponse { state: None, artifacts_extracted: 0, clean_shutdown: false });
    }

    #[test]
    fn resolution_names_only_what_it_decides() {
        let of = |resolution: Resolution| serde_json::to_value(resolution).unwrap();
        let approved = json!({ "resolutionType": "approve", "rationale": "", "actionKind": "review" });
        assert_eq!(of(Resolution::approve()), approved);
        assert_eq!(of(Resolution::reject("why"))["rationale"], json!("why"));
        assert_eq!(of(Resolution::always_approve())["alwaysApprove"], json!(true));
        assert_eq!(of(Resolution::modify(json!({ "a": 1 })))["modifiedArgs"], json!({ "a": 1 }));
        assert_eq!(of(Resolution::choose("b", "why"))["chosenOptionId"], json!("b"));
    }
}
