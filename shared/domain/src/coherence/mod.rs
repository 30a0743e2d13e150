//! The `CoherenceIssue` aggregate (S2, "Coherence Monitoring"; decision 88): work of different agents that does not fit together.
//!
//! | module | contents |
//! |---|---|
//! | `category` | the kinds of problems |
//! | `config` | the settings of a project |
//! | `finding` | the content of an issue: its finder, its category and the affected parts |
//! | `review` | layer 2: the request to a model, and its answer |
//! | `ledger` | the reviews of a project: limit, results, cost |
//! | `status` | the states of an issue |
//! | `structural` | layer 0: rules on paths, hashes, provenance and proposals |
//! | `similarity` | layer 1: a scan for similar texts of different workstreams |
//! | `alignment` | layer 1: artifacts that may not fit a decision |
//! | `comparison` | the engines of layer 1, their thresholds, and the artifacts that they compare |
//! | `lexical` | a comparison of texts by their common words |
//! | `embedding` | a comparison of texts by the vectors of an embedding model |
//! | `score` | the score of a project and its trend |

pub mod alignment;
mod category;
pub mod comparison;
mod config;
mod embedding;
mod error;
mod event;
mod finding;
mod ledger;
pub mod lexical;
mod review;
mod score;
pub mod similarity;
mod status;
pub mod structural;

use serde::{Deserialize, Serialize};

pub use alignment::ResolvedDecision;
pub use category::CoherenceCategory;
pub use comparison::ComparisonEngine;
pub use config::{
    CoherenceFeedbackLoopConfig, CoherenceMonitorConfig, EmbeddingsConfig, InvalidCoherenceConfig, Similarity,
};
pub use embedding::{Embedding, EmbeddingFailure, InvalidEmbedding};
pub use error::CoherenceError;
pub use event::CoherenceEvent;
pub use finding::{AlignmentCheck, Detected, Finding, IssueSource, StructuralCheck, flagged_issue_id};
pub use ledger::{EmbeddingUse, ReviewLedger, ReviewStart, ReviewUse};
pub use review::{
    IssueReview, RelevantDecision, ReviewCandidate, ReviewFailure, ReviewRequest, ReviewResult,
    ReviewedArtifact, WorkstreamBrief,
};
pub use score::{CoherenceScore, CoherenceTrend, OpenIssues, ScoredIssue};
pub use status::{CoherenceState, CoherenceStatus};

use crate::text::{Feedback, ModelId, cut};
use crate::tick::Tick;
use crate::{Aggregate, CoherenceIssueId, DomainContext, ProjectId, Timestamp, UserId};

/// A method that returns a [`CoherenceError`] has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CoherenceIssue {
    id: CoherenceIssueId,
    owner_id: UserId,
    project_id: ProjectId,
    #[serde(flatten)]
    finding: Finding,
    status: CoherenceStatus,
    /// The time of the latest detection.
    detected_at: Timestamp,
    detected_tick: Tick,
    /// The tick at which it was dismissed or resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_tick: Option<Tick>,
    /// The review by a model; `None` if there is none for the latest detection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    review: Option<IssueReview>,
}

impl CoherenceIssue {
    /// Most characters of a title.
    pub const MAX_TITLE: usize = 200;
    /// Most artifacts, workstreams and agents that an issue names, each.
    pub const MAX_AFFECTED: usize = 20;
    /// Most attempts to reach the model.
    pub const MAX_REVIEW_ATTEMPTS: u32 = 5;

    /// Creates the issue of a finding.
    pub fn detect(
        id: CoherenceIssueId,
        (owner_id, project_id): (UserId, ProjectId),
        mut finding: Finding,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> (Self, Vec<CoherenceEvent>) {
        finding.title = cut(&finding.title, Self::MAX_TITLE);
        let issue = Self {
            id,
            owner_id,
            project_id,
            finding,
            status: CoherenceStatus::Open,
            detected_at: ctx.now,
            detected_tick: tick,
            ended_tick: None,
            review: None,
        };
        let detected = issue.detected();
        (issue, vec![detected])
    }

    /// Records that the same finding was made again. It reopens an issue that was resolved, or dismissed by a model, before the affected
    /// version was stored, replaces advice about texts that are more similar now, and changes no other issue.
    pub fn detect_again(
        &mut self,
        mut finding: Finding,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Vec<CoherenceEvent> {
        let is_new = match &self.status {
            CoherenceStatus::Resolved { at, .. } | CoherenceStatus::Dismissed { at, by: None, .. } => {
                finding.evidence_at > *at
            }
            CoherenceStatus::Open => self.is_promoted_by(&finding),
            CoherenceStatus::Confirmed { .. } | CoherenceStatus::Dismissed { by: Some(_), .. } => false,
        };
        if !is_new {
            return Vec::new();
        }
        finding.title = cut(&finding.title, Self::MAX_TITLE);
        self.finding = finding;
        self.status = CoherenceStatus::Open;
        self.review = None;
        (self.detected_at, self.detected_tick, self.ended_tick) = (ctx.now, tick, None);
        vec![self.detected()]
    }

    /// Whether an advisory pair reaches the promotion threshold. A low severity that a model gave stays.
    fn is_promoted_by(&self, finding: &Finding) -> bool {
        let Finding { source, severity, .. } = &self.finding;
        matches!(source, IssueSource::Similarity { .. })
            && self.review.is_none()
            && !source.is_reviewable(*severity)
            && finding.source.is_reviewable(finding.severity)
    }

    /// A person confirms that the issue is real. It stays open until it is resolved.
    pub fn confirm(
        &mut self,
        by: &UserId,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<CoherenceEvent>, CoherenceError> {
        match &self.status {
            CoherenceStatus::Open => {
                self.status = CoherenceStatus::Confirmed { by: by.clone(), at: ctx.now };
                let (project_id, source) = (self.project_id, self.finding.source.clone());
                Ok(vec![CoherenceEvent::Confirmed { project_id, source }])
            }
            CoherenceStatus::Confirmed { .. } => Ok(Vec::new()),
            CoherenceStatus::Dismissed { .. } | CoherenceStatus::Resolved { .. } => Err(self.over()),
        }
    }

    /// A person finds that the issue is not real.
    pub fn dismiss(
        &mut self,
        by: &UserId,
        reason: Option<Feedback>,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<CoherenceEvent>, CoherenceError> {
        match &self.status {
            CoherenceStatus::Open => {
                self.status = CoherenceStatus::Dismissed { by: Some(by.clone()), at: ctx.now, reason };
                self.ended_tick = Some(tick);
                Ok(vec![CoherenceEvent::Dismissed { project_id: self.project_id }])
            }
            CoherenceStatus::Dismissed { .. } => Ok(Vec::new()),
            CoherenceStatus::Confirmed { .. } => Err(CoherenceError::Confirmed),
            CoherenceStatus::Resolved { .. } => Err(self.over()),
        }
    }

    /// The parts fit together now.
    pub fn resolve(
        &mut self,
        by: &UserId,
        resolution: Feedback,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Result<Vec<CoherenceEvent>, CoherenceError> {
        match &self.status {
            CoherenceStatus::Open | CoherenceStatus::Confirmed { .. } => {
                self.status = CoherenceStatus::Resolved { by: by.clone(), at: ctx.now, resolution };
                self.ended_tick = Some(tick);
                Ok(vec![CoherenceEvent::Resolved { project_id: self.project_id }])
            }
            CoherenceStatus::Resolved { .. } => Ok(Vec::new()),
            CoherenceStatus::Dismissed { .. } => Err(self.over()),
        }
    }

    /// Whether the issue is open and lacks a review.
    pub fn needs_review(&self) -> bool {
        self.status == CoherenceStatus::Open && self.lacks_review()
    }

    /// Whether models review findings of this kind, and none has judged this one.
    pub const fn lacks_review(&self) -> bool {
        let is_reviewed =
            matches!(self.review, Some(IssueReview::Confirmed { .. } | IssueReview::FalsePositive { .. }));
        !is_reviewed && self.finding.source.is_reviewable(self.finding.severity)
    }

    /// Whether the review failed and is not repeated soon.
    pub const fn has_given_up_review(&self) -> bool {
        match &self.review {
            Some(IssueReview::Failed { failure: ReviewFailure::Unavailable, attempts, .. }) => {
                *attempts >= Self::MAX_REVIEW_ATTEMPTS
            }
            Some(IssueReview::Failed { .. }) => true,
            _ => false,
        }
    }

    /// A person requests a review of an issue that has none, or whose review failed.
    pub fn request_review(&mut self, ctx: &DomainContext<'_>) -> Vec<CoherenceEvent> {
        if !self.needs_review() || matches!(self.review, Some(IssueReview::Requested { .. })) {
            return Vec::new();
        }
        self.review = Some(IssueReview::Requested { at: ctx.now });
        vec![CoherenceEvent::ReviewRequested { project_id: self.project_id }]
    }

    /// Records the judgment of `model`: a confirmed issue has the category and severity of the judgment, another one is dismissed. An
    /// issue that a person settled in the meantime stays as it is.
    pub fn record_review(
        &mut self,
        result: ReviewResult,
        model: ModelId,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Vec<CoherenceEvent> {
        if !self.needs_review() {
            return Vec::new();
        }
        let at = ctx.now;
        let ReviewResult { confirmed, category, severity, explanation, suggested_resolution, .. } = result;
        self.review = Some(if confirmed {
            self.finding.category = category.unwrap_or(self.finding.category);
            self.finding.severity = severity.unwrap_or(self.finding.severity);
            IssueReview::Confirmed { at, model, explanation, suggested_resolution }
        } else {
            self.status = CoherenceStatus::Dismissed { by: None, at, reason: None };
            self.ended_tick = Some(tick);
            IssueReview::FalsePositive { at, model, explanation }
        });
        let Finding { category, severity, .. } = self.finding;
        vec![CoherenceEvent::Reviewed { project_id: self.project_id, confirmed, category, severity }]
    }

    /// Records that a review failed. Waiting for a higher spending cap is no attempt, and is recorded once.
    pub fn record_review_failure(
        &mut self,
        failure: ReviewFailure,
        ctx: &DomainContext<'_>,
    ) -> Vec<CoherenceEvent> {
        let is_capped = failure == ReviewFailure::SpendingCap;
        let was_capped =
            matches!(self.review, Some(IssueReview::Failed { failure: ReviewFailure::SpendingCap, .. }));
        if !self.needs_review() || (is_capped && was_capped) {
            return Vec::new();
        }
        let attempts = self.failed_reviews().saturating_add(u32::from(!is_capped));
        self.review = Some(IssueReview::Failed { at: ctx.now, attempts, failure });
        vec![CoherenceEvent::ReviewFailed { project_id: self.project_id, failure }]
    }

    /// The number of failed attempts in a row.
    pub const fn failed_reviews(&self) -> u32 {
        match self.review {
            Some(IssueReview::Failed { attempts, .. }) => attempts,
            _ => 0,
        }
    }

    const fn over(&self) -> CoherenceError {
        CoherenceError::Over { state: self.status.state() }
    }

    fn detected(&self) -> CoherenceEvent {
        CoherenceEvent::Detected {
            project_id: self.project_id,
            category: self.finding.category,
            severity: self.finding.severity,
            source: self.finding.source.clone(),
        }
    }
}

/// Read access.
impl CoherenceIssue {
    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    pub const fn finding(&self) -> &Finding {
        &self.finding
    }

    pub const fn status(&self) -> &CoherenceStatus {
        &self.status
    }

    /// The review by a model.
    pub const fn review(&self) -> Option<&IssueReview> {
        self.review.as_ref()
    }

    pub const fn detected_at(&self) -> Timestamp {
        self.detected_at
    }

    pub const fn detected_tick(&self) -> Tick {
        self.detected_tick
    }

    pub const fn scored(&self) -> ScoredIssue {
        ScoredIssue { severity: self.finding.severity, detected: self.detected_tick, ended: self.ended_tick }
    }

    /// Prefix of the sort keys of a project's issues in one half of the owner's list.
    pub fn listing_prefix(project: ProjectId, is_open: bool) -> String {
        format!("{project}#{}#", u8::from(is_open))
    }
}

impl Aggregate for CoherenceIssue {
    type Id = CoherenceIssueId;
    type Event = CoherenceEvent;

    const KIND: &'static str = "coherence-issue";

    fn id(&self) -> CoherenceIssueId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// By project. Issues that are open are behind the others, so that a descending list begins with them: they are sorted by the time
    /// of their detection, the others by the time of their end.
    fn listing_sort(&self) -> String {
        let ended_at = self.status.ended_at();
        let prefix = Self::listing_prefix(self.project_id, ended_at.is_none());
        let at = ended_at.unwrap_or(self.detected_at).as_millis().max(0);
        format!("{prefix}{at:016}#{}", self.id)
    }
}
