//! Events of agents in the stream of a project (S2 `EventEnvelope`, `AgentEvent`).

use pilothouse_domain::artifact::{ArtifactKind, ArtifactStatus, Provenance};
use pilothouse_domain::coherence::CoherenceCategory;
use pilothouse_domain::decision::DecisionKind;
use pilothouse_domain::effect::Severity;
use pilothouse_domain::escalation::{GuardrailAction, GuardrailLevel};
use pilothouse_domain::routing::{
    AgentEventType, CompletionOutcome, DelegationAction, ErrorTraits, LifecycleAction, ToolCallPhase,
};
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::{
    AgentSessionId, ArtifactId, CoherenceIssueId, DecisionId, ProjectAgentId, RunId, SubAgentId, Timestamp,
    ToolCallId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::decisions::DecisionView;

/// An event with its source.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventEnvelope {
    /// Identifies the event, also when it is sent again.
    pub source_event_id: String,
    /// The sequence of the journal entry of the session that records the event. Several events may share it.
    pub source_sequence: u64,
    /// The run whose agent caused the event. Absent if something else did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// When the event happened, by the clock of the agent or its sidecar. Absent if no agent caused the event, or if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_occurred_at: Option<Timestamp>,
    /// When the event was recorded.
    pub ingested_at: Timestamp,
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The session of the agent.
    pub session_id: AgentSessionId,
    /// The status of the session after the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_status: Option<AgentSessionStatus>,
    /// The event.
    pub event: AgentEvent,
}

/// An event of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentEvent {
    /// The agent.
    pub agent_id: ProjectAgentId,
    /// The type of the event with its fields.
    #[serde(flatten)]
    pub content: AgentEventContent,
}

/// The content of an event.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEventContent {
    /// A step of the work, or plain text of the agent.
    Status {
        /// What happened.
        message: String,
    },
    /// A decision waits for a person.
    Decision {
        /// The kind of the decision.
        subtype: DecisionKind,
        /// The id of the decision.
        decision_id: DecisionId,
        /// The decision as it is now. Absent if it is too large; read it by its id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<Box<DecisionView>>,
    },
    /// A tool call.
    ToolCall {
        /// Ties the phases of a call together.
        tool_call_id: ToolCallId,
        /// The tool. Absent if the start of the call was not observed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_name: Option<String>,
        /// How far the call is.
        phase: ToolCallPhase,
        /// The input, unless it is large. The session's tool calls have all of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Value>,
        /// The beginning of the output.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<String>,
        /// The subagent that made the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sub_agent_id: Option<SubAgentId>,
    },
    /// The agent has done its work, or gave up.
    Completion {
        /// How it ended, in words.
        summary: String,
        /// How it ended.
        outcome: CompletionOutcome,
    },
    /// Something failed.
    Error {
        /// What failed.
        message: String,
        /// How bad it is, and whether the agent can continue.
        #[serde(flatten)]
        traits: ErrorTraits,
    },
    /// The agent gives work to another one, or receives it back.
    Delegation {
        /// What it does.
        action: DelegationAction,
        /// The subagent, or the session that continues the work.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child_agent_id: Option<String>,
        /// Why, in words.
        reason: String,
    },
    /// A guardrail tripped, or a permission stopped a call.
    Guardrail {
        /// The name of the guardrail.
        guardrail_name: String,
        /// What the guardrail judges. Absent for a permission, and if the agent reports no known level.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        level: Option<GuardrailLevel>,
        /// What the guardrail does. Absent for a permission, and for a guardrail of the agent's SDK.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<GuardrailAction>,
        /// Whether its condition was fulfilled. `false` is only reported by agents.
        tripped: bool,
        /// What it stopped, or on what it tripped.
        message: String,
    },
    /// The agent started, stopped, or ended.
    Lifecycle {
        /// What happened.
        action: LifecycleAction,
        /// Details in words.
        reason: String,
    },
    /// A long piece of work advanced.
    Progress {
        /// The name of the list of work.
        operation_id: String,
        /// The progress in words.
        description: String,
        /// The progress from 0 to 100. Absent if it is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress_pct: Option<u8>,
    },
    /// The agent reported a version of an artifact.
    Artifact {
        /// The id of the artifact. An artifact that a shim reports has the id that the shim gave it.
        artifact_id: String,
        /// The name of the artifact.
        name: String,
        /// The kind of result.
        kind: ArtifactKind,
        /// The workstream that owns it.
        workstream: WorkstreamId,
        /// Its state.
        status: ArtifactStatus,
        /// The quality from 0 to 1, by the judgement of the agent. Absent if the agent does not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        quality_score: Option<f64>,
        /// Where it comes from.
        provenance: Box<Provenance>,
        /// The address of the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uri: Option<String>,
        /// The media type of the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The size of the content in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size_bytes: Option<u64>,
        /// The SHA-256 of the content.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content_hash: Option<String>,
    },
    /// A report or a flag of the agent raised a coherence issue.
    Coherence {
        /// The id of the issue.
        issue_id: CoherenceIssueId,
        /// The issue in a line.
        title: String,
        /// The issue in sentences.
        description: String,
        /// In which way the parts do not fit.
        category: CoherenceCategory,
        /// How bad it is.
        severity: Severity,
        /// The workstreams that it concerns.
        affected_workstreams: Vec<WorkstreamId>,
        /// The artifacts that it concerns.
        affected_artifact_ids: Vec<ArtifactId>,
    },
    /// An event for debugging.
    RawProvider {
        /// The adapter's name for the event.
        event_type: String,
        /// The event. Long texts are cut.
        payload: Value,
    },
}

impl AgentEventContent {
    /// The type of the event.
    pub const fn event_type(&self) -> AgentEventType {
        match self {
            Self::Status { .. } => AgentEventType::Status,
            Self::Decision { .. } => AgentEventType::Decision,
            Self::ToolCall { .. } => AgentEventType::ToolCall,
            Self::Completion { .. } => AgentEventType::Completion,
            Self::Error { .. } => AgentEventType::Error,
            Self::Delegation { .. } => AgentEventType::Delegation,
            Self::Guardrail { .. } => AgentEventType::Guardrail,
            Self::Lifecycle { .. } => AgentEventType::Lifecycle,
            Self::Progress { .. } => AgentEventType::Progress,
            Self::Artifact { .. } => AgentEventType::Artifact,
            Self::Coherence { .. } => AgentEventType::Coherence,
            Self::RawProvider { .. } => AgentEventType::RawProvider,
        }
    }
}
