//! Responses of the agent API.

use pilothouse_domain::artifact::{Artifact, ArtifactSummary, ArtifactVersion};
use pilothouse_domain::decision::{
    Decision, DecisionKind, DecisionOption, DecisionStatus, DecisionSubject, Resolution,
};
use pilothouse_domain::effect::Severity;
use pilothouse_domain::escalation::VerdictKind;
use pilothouse_domain::output_schema::OutputViolation;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::text::WorkstreamId;
use pilothouse_domain::value::Question;
use pilothouse_domain::{AgentLearningId, AgentTaskId, DecisionId, ProjectAgentId, Timestamp, VerdictId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verdict on a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolVerdict {
    /// Whether the call may be made, needs a person, or must not be made.
    pub verdict: VerdictKind,
    /// The id of the verdict, for a request for permission.
    pub verdict_id: VerdictId,
    /// The build files that the call changes, for the next request of the run.
    pub changed_build_files: Vec<String>,
    /// Why the call is denied, for the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// The response to an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedOutput {
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// Whether the output takes effect.
    pub accepted: bool,
    /// Why the output is not accepted: how the result violates the schema of the brief, and what guardrails of the brief do not allow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<OutputViolation>,
    /// How often such an output will be returned before it is reviewed as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrections_left: Option<u8>,
}

/// The response to creating a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedTask {
    /// The id of the new task.
    pub task_id: AgentTaskId,
}

/// The response to recording a learning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLearning {
    /// The id of the new learning.
    pub learning_id: AgentLearningId,
}

/// An artifact with a part of its text.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadArtifact {
    /// The artifact.
    pub artifact: ArtifactSummary,
    /// The version that was read.
    pub version: ArtifactVersion,
    /// A part of the text. Absent if the content is not text, or larger than 4 MB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The characters of the whole text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_chars: Option<usize>,
    /// Where the next part begins, in characters. Absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

impl ReadArtifact {
    /// At most `limit` characters of the text, from `offset`.
    pub fn of(
        artifact: &Artifact,
        version: ArtifactVersion,
        text: Option<&str>,
        (offset, limit): (usize, usize),
    ) -> Self {
        let total_chars = text.map(|text| text.chars().count());
        let end = offset.saturating_add(limit);
        Self {
            artifact: artifact.summary(),
            version,
            text: text.map(|text| text.chars().skip(offset).take(limit).collect()),
            total_chars,
            next_offset: total_chars.filter(|total| end < *total).map(|_| end),
        }
    }
}

/// A decision of a project, for its agents. It names neither the rule that required the decision nor a classification.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionDetail {
    /// The id of the decision.
    pub id: DecisionId,
    /// The kind of decision.
    pub kind: DecisionKind,
    /// The subject of the decision in a line.
    pub title: String,
    /// The urgency for people.
    pub severity: Severity,
    /// The agent that waits for it.
    pub agent_id: ProjectAgentId,
    /// The workstream of that agent.
    pub workstream: WorkstreamId,
    /// The options from which a person chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<DecisionOption>,
    /// The questions to answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// The state: pending, or how it ended.
    pub state: DecisionStatus,
    /// The resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    /// When it was opened.
    pub created_at: Timestamp,
}

impl DecisionDetail {
    /// `None` for a decision outside of projects, and for one about trust or a coherence issue.
    pub fn of(decision: &Decision) -> Option<Self> {
        let project = decision.project.as_ref()?;
        let questions = match &decision.subject {
            DecisionSubject::Question { questions, .. } => questions.clone(),
            DecisionSubject::Option { .. }
            | DecisionSubject::ToolApproval { .. }
            | DecisionSubject::Plan { .. }
            | DecisionSubject::OutputReview { .. }
            | DecisionSubject::BrakeRelease { .. }
            | DecisionSubject::CrashRecovery { .. }
            | DecisionSubject::HandoffFailed { .. } => Vec::new(),
            // Agents do not learn how their trust is judged, and a coherence review quotes artifacts that the agent may not read.
            DecisionSubject::Autonomy { .. } | DecisionSubject::CoherenceReview { .. } => return None,
        };
        Some(Self {
            id: decision.id,
            kind: decision.kind(),
            title: decision.subject.title(),
            severity: decision.rank().0,
            agent_id: project.agent_id,
            workstream: project.workstream.clone(),
            options: decision.subject.options().unwrap_or_default().to_vec(),
            questions,
            state: decision.status(),
            resolution: decision.state.ruling().map(|ruling| ruling.resolution.clone()),
            created_at: decision.created_at,
        })
    }
}
