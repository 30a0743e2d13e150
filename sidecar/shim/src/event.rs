//! Events of an agent (S2 `AgentEvent`) with the identity that the shim gave them.

use pilothouse_domain::Timestamp;
use pilothouse_domain::effect::{BlastRadius, Confidence, Severity};
use pilothouse_domain::escalation::ReportedRisk;
pub use pilothouse_domain::routing::{DelegationAction, LifecycleAction};
use pilothouse_domain::value::DraftKind;
use serde::Deserialize;
use serde_json::{Map, Value};

/// An event with its source identity.
#[derive(Debug, Clone, PartialEq)]
pub struct AdapterEvent {
    pub source: Source,
    pub event: AgentEvent,
}

/// Who emitted an event, and in which place. Repetitions have the same source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub event_id: String,
    pub run_id: String,
    /// From 1 in each run. `None` if the shim gave none; such an event has no place.
    pub sequence: Option<u64>,
    /// When the agent emitted it, by the clock of the shim.
    pub occurred_at: Option<Timestamp>,
}

/// A piece of the text that the agent is writing: an addition, which has neither an envelope nor a place in the order of events. The
/// complete text follows as an event.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Draft {
    #[serde(default = "default_kind")]
    pub kind: DraftKind,
    pub text: String,
    /// The text begins with this piece; earlier ones do not belong to it.
    #[serde(default)]
    pub restart: bool,
}

impl Draft {
    /// The `type` of the message.
    pub const TYPE: &'static str = "draft";
}

const fn default_kind() -> DraftKind {
    DraftKind::Text
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum AgentEvent {
    Status { message: String },
    Decision(Decision),
    Artifact(Artifact),
    Coherence(Coherence),
    ToolCall(ToolCall),
    Completion(Completion),
    Error(ErrorReport),
    Delegation(Delegation),
    Guardrail { guardrail_name: String, level: String, tripped: bool, message: String },
    Lifecycle { action: LifecycleAction, reason: Option<String> },
    Progress { operation_id: String, description: String, progress_pct: Option<f64> },
    RawProvider { provider_name: String, event_type: String, payload: Value },
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Decision {
    Option(OptionDecision),
    ToolApproval(ToolApproval),
}

impl Decision {
    pub fn id(&self) -> &str {
        match self {
            Self::Option(decision) => &decision.decision_id,
            Self::ToolApproval(approval) => &approval.decision_id,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OptionDecision {
    pub decision_id: String,
    pub title: String,
    pub summary: String,
    pub severity: Option<Severity>,
    pub confidence: Option<Confidence>,
    pub blast_radius: Option<BlastRadius>,
    pub options: Vec<DecisionOption>,
    pub recommended_option_id: Option<String>,
    pub affected_artifact_ids: Vec<String>,
    pub requires_rationale: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DecisionOption {
    pub id: String,
    pub label: String,
    pub description: String,
    pub tradeoffs: Option<String>,
}

/// The agent wants to call a tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolApproval {
    pub decision_id: String,
    pub tool_name: String,
    pub tool_args: Value,
    /// The agent's own assessment. It can only make a verdict stricter.
    #[serde(flatten)]
    pub risk: ReportedRisk,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    pub artifact_id: String,
    pub name: String,
    pub kind: String,
    pub status: String,
    pub uri: Option<String>,
    /// All fields, for the record.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Coherence {
    pub issue_id: String,
    pub title: String,
    pub description: String,
    pub category: String,
    pub severity: Severity,
    pub affected_workstreams: Vec<String>,
    pub affected_artifact_ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub tool_call_id: String,
    pub tool_name: String,
    pub phase: ToolPhase,
    pub input: Value,
    pub output: Option<Value>,
    pub approved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolPhase {
    Requested,
    Running,
    Completed,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Completion {
    pub summary: String,
    pub outcome: CompletionOutcome,
    pub reason: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompletionOutcome {
    Success,
    Partial,
    Abandoned,
    MaxTurns,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ErrorReport {
    pub severity: Severity,
    pub message: String,
    pub recoverable: bool,
    pub error_code: Option<String>,
    pub category: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delegation {
    pub action: DelegationAction,
    pub child_agent_id: String,
    pub child_role: String,
    pub reason: String,
    /// 0 is the agent itself, 1 its subagents.
    #[serde(default)]
    pub delegation_depth: Option<f64>,
}
