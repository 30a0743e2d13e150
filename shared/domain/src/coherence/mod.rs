//! The `CoherenceIssue` aggregate (S2, "Coherence Monitoring"; decision 88): work of different agents that does not fit together.
//!
//! | module | contents |
//! |---|---|
//! | `finding` | the content of an issue: its finder, its category and the affected parts |
//! | `status` | the states of an issue |
//! | `structural` | layer 0: rules on paths, hashes, provenance and proposals |
//! | `similarity` | layer 1: similar texts of different workstreams |
//! | `lexical` | a comparison of texts by their common words |
//! | `score` | the score of a project and its trend |

mod error;
mod event;
mod finding;
pub mod lexical;
mod score;
pub mod similarity;
mod status;
pub mod structural;

use serde::{Deserialize, Serialize};

pub use error::CoherenceError;
pub use event::CoherenceEvent;
pub use finding::{Detected, Finding, IssueSource, StructuralCheck, flagged_issue_id};
pub use score::{CoherenceScore, CoherenceTrend, OpenIssues, ScoredIssue};
pub use status::{CoherenceState, CoherenceStatus};

pub use crate::knowledge::CoherenceCategory;
use crate::text::{Feedback, cut};
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
}

impl CoherenceIssue {
    /// Most characters of a title.
    pub const MAX_TITLE: usize = 200;
    /// Most artifacts, workstreams and agents that an issue names, each.
    pub const MAX_AFFECTED: usize = 20;

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
        };
        let detected = issue.detected();
        (issue, vec![detected])
    }

    /// Records that the same finding was made again. It reopens an issue that was resolved before the affected version was stored, and
    /// changes no other one.
    pub fn detect_again(
        &mut self,
        mut finding: Finding,
        tick: Tick,
        ctx: &DomainContext<'_>,
    ) -> Vec<CoherenceEvent> {
        let is_new = match &self.status {
            CoherenceStatus::Resolved { at, .. } => finding.evidence_at > *at,
            CoherenceStatus::Open | CoherenceStatus::Confirmed { .. } | CoherenceStatus::Dismissed { .. } => {
                false
            }
        };
        if !is_new {
            return Vec::new();
        }
        finding.title = cut(&finding.title, Self::MAX_TITLE);
        self.finding = finding;
        self.status = CoherenceStatus::Open;
        (self.detected_at, self.detected_tick, self.ended_tick) = (ctx.now, tick, None);
        vec![self.detected()]
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
                self.status = CoherenceStatus::Dismissed { by: by.clone(), at: ctx.now, reason };
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
