//! Coherence issues in the API (S2, "Coherence Monitoring"; decision 88).

use pilothouse_domain::coherence::{
    CoherenceIssue, CoherenceScore, CoherenceState, CoherenceStatus, CoherenceTrend, ComparisonEngine,
    EmbeddingFailure, EmbeddingUse, Finding, IssueReview, OpenIssues, ReviewUse,
};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{Aggregate as _, CoherenceIssueId, ProjectId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Work of different agents that does not fit together (S2 `CoherenceIssue`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherenceIssueView {
    /// The id of the issue.
    pub id: CoherenceIssueId,
    /// The project.
    pub project_id: ProjectId,
    /// The content of the issue, with its finder.
    #[serde(flatten)]
    pub finding: Finding,
    /// The state, with the person and time of its decision.
    pub status: CoherenceStatus,
    /// The review by a model. Absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<IssueReview>,
    /// The time of the latest detection.
    pub detected_at: Timestamp,
    /// The tick of the project at that time.
    pub detected_tick: Tick,
}

impl CoherenceIssueView {
    /// The view of an issue.
    pub fn of(issue: &CoherenceIssue) -> Self {
        Self {
            id: issue.id(),
            project_id: issue.project_id(),
            finding: issue.finding().clone(),
            status: issue.status().clone(),
            review: issue.review().cloned(),
            detected_at: issue.detected_at(),
            detected_tick: issue.detected_tick(),
        }
    }
}

/// An issue that an agent has flagged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FlaggedIssue {
    /// The id of the issue.
    pub issue_id: CoherenceIssueId,
    /// Its state. It is not `open` if a person has decided on the same issue before.
    pub state: CoherenceState,
}

/// The result of an audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherenceAudit {
    /// The engine that compared the texts: `lexical` weighs common words, `embeddings` is the model that the server is configured with.
    pub engine: ComparisonEngine,
    /// Why the lexical engine compared the texts, although the server is configured with an embedding model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<EmbeddingFailure>,
    /// The number of artifacts whose texts were compared.
    pub compared_artifacts: usize,
    /// The number of decisions that the artifacts were compared with, at most 50.
    #[serde(default)]
    pub compared_decisions: usize,
    /// The number of artifacts without text: images, PDF documents, large uploads.
    pub skipped_artifacts: usize,
    /// The project has more artifacts than `layer1MaxArtifactsPerScan`. Nothing was compared.
    pub is_too_large: bool,
    /// The number of pairs with similar texts.
    pub similar_pairs: usize,
    /// The number of pairs of a decision and an artifact that may not fit it.
    #[serde(default)]
    pub misaligned_pairs: usize,
    /// The number of issues that are new: at most 50 of similar texts, and 50 of decisions.
    pub raised_issues: usize,
    /// The number of reviews that the audit requested, for older issues without one. 0 without a model.
    pub requested_reviews: usize,
}

/// The coherence of a project (S2, "Coherence score computation").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherenceReport {
    /// 100 without issues; each open or confirmed one takes 15 (critical), 8 (high), 3 (medium) or 1 point (low).
    pub score: CoherenceScore,
    /// The score ten ticks ago.
    pub score_before: CoherenceScore,
    /// The change of the score since then.
    pub trend: CoherenceTrend,
    /// The number of open and confirmed issues of each severity.
    pub open_issues: OpenIssues,
    /// The tick of the project.
    pub tick: Tick,
    /// The number and cost of the reviews by a model. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reviews: Option<ReviewUse>,
    /// The number and cost of the texts that a model embedded. Absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embeddings: Option<EmbeddingUse>,
}
