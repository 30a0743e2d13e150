//! The snapshot of a project's knowledge for one agent (S2 `KnowledgeSnapshot`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tokens::estimated_tokens;
use crate::artifact::{ArtifactKind, ArtifactState, ArtifactSummary};
use crate::coherence::{CoherenceCategory, CoherenceIssue};
use crate::decision::{Decision, DecisionKind, DecisionSubject};
use crate::effect::Severity;
use crate::project::AgentStatus;
use crate::text::{AdapterName, AgentRole, ArtifactName, ModelId, WorkstreamId, WorkstreamName, cut};
use crate::value::{KnowledgeScope, sha256_hex};
use crate::{Aggregate as _, ArtifactId, DecisionId, ProjectAgentId, Timestamp};

/// Most tokens of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenBudget(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be {min} to {max} tokens", min = TokenBudget::MIN, max = TokenBudget::MAX)]
pub struct InvalidTokenBudget;

impl TokenBudget {
    pub const MIN: u64 = 1_000;
    pub const MAX: u64 = 32_000;
    /// S2, "Snapshot sizing".
    pub const DEFAULT: Self = Self(4_000);

    pub const fn new(tokens: u64) -> Result<Self, InvalidTokenBudget> {
        if tokens < Self::MIN || tokens > Self::MAX { Err(InvalidTokenBudget) } else { Ok(Self(tokens)) }
    }

    pub const fn tokens(self) -> u64 {
        self.0
    }
}

/// The part of a project's knowledge that one agent may read, within a number of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnowledgeSnapshot {
    /// Increases for each agent when the content changes.
    pub snapshot_version: u64,
    /// When the snapshot was made.
    pub generated_at: Timestamp,
    /// The workstreams that the agent may read; its own is the first one.
    pub workstreams: Vec<WorkstreamSummary>,
    /// Decisions that wait for a person, the most severe first.
    pub pending_decisions: Vec<DecisionSummary>,
    /// Contradictions and other issues between results, the latest first.
    pub recent_coherence_issues: Vec<CoherenceIssueSummary>,
    /// Artifacts without their content, those that changed last first.
    pub artifact_index: Vec<ArtifactIndexEntry>,
    /// The other agents of these workstreams.
    pub active_agents: Vec<AgentSummary>,
    /// Entries that the snapshot omits to fit its number of tokens.
    #[serde(default, skip_serializing_if = "Omitted::is_nothing")]
    pub omitted: Omitted,
    /// An estimate of the tokens of this snapshot.
    pub estimated_tokens: u64,
}

/// Numbers of entries that a snapshot omits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    pub artifacts: usize,
    pub pending_decisions: usize,
    pub coherence_issues: usize,
    pub agents: usize,
    pub workstreams: usize,
}

impl Omitted {
    fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// A workstream (S2 `WorkstreamSummary`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkstreamSummary {
    pub id: WorkstreamId,
    pub name: WorkstreamName,
    pub status: WorkstreamStatus,
    pub active_agent_ids: Vec<ProjectAgentId>,
    pub artifact_count: u64,
    pub pending_decision_count: usize,
    /// A sentence about the latest change.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub recent_activity: String,
}

/// The activity of a workstream's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkstreamStatus {
    /// An agent works.
    Active,
    /// No agent works, and one waits for a person.
    Waiting,
    Idle,
}

/// A decision that waits for a person (S2 `DecisionSummary`). The tool `decision_detail` reads the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionSummary {
    pub id: DecisionId,
    pub title: String,
    pub severity: Severity,
    pub agent_id: ProjectAgentId,
    pub workstream: WorkstreamId,
    pub subtype: DecisionKind,
}

/// An issue between results of agents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherenceIssueSummary {
    pub id: String,
    pub title: String,
    pub severity: Severity,
    pub category: CoherenceCategory,
    pub affected_workstreams: Vec<WorkstreamId>,
}

/// An artifact (S2 `ArtifactSummary`). The tool `read_artifact` reads its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactIndexEntry {
    pub id: ArtifactId,
    pub name: ArtifactName,
    pub kind: ArtifactKind,
    pub status: ArtifactStatus,
    pub workstream: WorkstreamId,
    pub version: u32,
}

/// S2's states of an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactStatus {
    InReview,
    Approved,
    Rejected,
}

/// Another agent (S2 `AgentSummary`). Its trust is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSummary {
    pub id: ProjectAgentId,
    pub role: AgentRole,
    pub workstream: WorkstreamId,
    pub status: AgentStatus,
    /// The adapter that drives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin_name: Option<AdapterName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preference: Option<ModelId>,
}

impl From<&ArtifactSummary> for ArtifactIndexEntry {
    fn from(artifact: &ArtifactSummary) -> Self {
        Self {
            id: artifact.id,
            name: artifact.name.clone(),
            kind: artifact.kind,
            status: match artifact.state {
                ArtifactState::Pending => ArtifactStatus::InReview,
                ArtifactState::Approved => ArtifactStatus::Approved,
                ArtifactState::Rejected => ArtifactStatus::Rejected,
            },
            workstream: artifact.workstream.clone(),
            version: artifact.version,
        }
    }
}

impl CoherenceIssueSummary {
    /// The issue as an agent with this scope may see it. The title may name what the agent may not read.
    pub fn of(issue: &CoherenceIssue, scope: &KnowledgeScope) -> Self {
        let finding = issue.finding();
        let title = if finding.affected_workstreams.iter().all(|affected| scope.may_read(affected)) {
            finding.title.clone()
        } else {
            format!("{} with a workstream that you may not read", finding.category)
        };
        Self {
            id: issue.id().to_string(),
            title,
            severity: finding.severity,
            category: finding.category,
            affected_workstreams: finding.affected_workstreams.clone(),
        }
    }
}

impl DecisionSummary {
    /// Most characters of a title.
    const MAX_TITLE: usize = 120;

    /// `None` for a decision outside of projects. Rules and verdicts are not part of it: agents must not know them.
    pub fn of(decision: &Decision) -> Option<Self> {
        let project = decision.project.as_ref()?;
        Some(Self {
            id: decision.id,
            title: cut(&decision.subject.title(), Self::MAX_TITLE),
            severity: decision.rank().0,
            agent_id: project.agent_id,
            workstream: project.workstream.clone(),
            subtype: decision.kind(),
        })
    }
}

impl DecisionSubject {
    /// The subject of the decision in a line.
    pub fn title(&self) -> String {
        match self {
            Self::Option { question, .. } => question.clone(),
            Self::ToolApproval { approval, .. } => format!("Use {}", approval.tool_name),
            Self::Question { questions, .. } => {
                questions.first().map(|first| first.question.clone()).unwrap_or_default()
            }
            Self::Plan { version, .. } => format!("Plan, revision {version}"),
            Self::OutputReview { .. } => "Review of an output".to_owned(),
            Self::BrakeRelease { .. } => "Release of a brake".to_owned(),
            Self::CrashRecovery { .. } => "Recovery of an agent that failed".to_owned(),
            Self::HandoffFailed { .. } => "Work that cannot be handed over".to_owned(),
            Self::Autonomy { .. } => "Autonomy of an agent".to_owned(),
            // Without the title, which may name artifacts that the agent may not read.
            Self::CoherenceReview { category, .. } => format!("Coherence of results: {category}"),
        }
    }
}

impl KnowledgeSnapshot {
    #[must_use]
    pub fn with_version(mut self, version: u64) -> Self {
        self.snapshot_version = version;
        self
    }

    /// SHA-256 of the content, without version and time.
    pub fn content_hash(&self) -> String {
        let content = Self { snapshot_version: 0, generated_at: Timestamp::from_millis(0), ..self.clone() };
        sha256_hex(&content.json())
    }

    /// The estimate for the text that the agent receives, whatever its version is.
    pub(super) fn tokens(&self) -> u64 {
        let longest = Self { snapshot_version: u64::MAX, estimated_tokens: u64::MAX, ..self.clone() };
        estimated_tokens(&longest.json())
    }

    /// The text that the agent receives.
    pub fn json(&self) -> String {
        // Structs of strings and numbers always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }
}
