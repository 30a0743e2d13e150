//! Coherence issues of a project, recommendations of agents for its artifacts, and the choices that were made (decision 88).
//!
//! An issue is an aggregate. A recommendation and a choice belong to one decision, so that agents of one project never write the same item.

use pilothouse_domain::coherence::structural::Recommendation;
use pilothouse_domain::coherence::{CoherenceIssue, ResolvedDecision, ReviewLedger};
use pilothouse_domain::tick::Tick;
use pilothouse_domain::{ArtifactId, ProjectId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose, guarded};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, write};
use crate::table::{Condition, Position, Query, SortRange, Write};

/// The issues to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IssueList {
    /// The open and confirmed ones, the latest first, then the others.
    All,
    /// Open and confirmed ones, the latest first.
    Open,
    /// Dismissed and resolved ones, those that ended last first.
    Ended,
}

/// The time of the latest scan of a project's texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScanMark {
    pub tick: Tick,
    pub scanned_at: Timestamp,
    /// The latest scan by embeddings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedded_at: Option<Timestamp>,
    /// How often in a row the embedding model could not be reached.
    #[serde(default)]
    pub failed_embeddings: u32,
}

impl Commit {
    /// Adds the mark of a scan, guarded by its loaded version.
    pub fn scan_mark(&mut self, project: ProjectId, mark: &Loaded<ScanMark>) -> Result<(), StoreError> {
        let row = write(layout::coherence_scan(project), "coherence-scan", &mark.value)?;
        self.push(guarded(row, mark.version), Purpose::Guard);
        Ok(())
    }

    /// Adds the reviews of a project, guarded by their loaded version.
    pub fn review_ledger(
        &mut self,
        project: ProjectId,
        ledger: &Loaded<ReviewLedger>,
    ) -> Result<(), StoreError> {
        let row = write(layout::coherence_reviews(project), "coherence-reviews", &ledger.value)?;
        self.push(guarded(row, ledger.version), Purpose::Guard);
        Ok(())
    }

    /// Adds the recommendation of a decision for an artifact.
    pub fn recommendation(
        &mut self,
        project: ProjectId,
        artifact: ArtifactId,
        recommendation: &Recommendation,
    ) -> Result<(), StoreError> {
        let key = layout::recommendation(project, artifact, recommendation);
        self.push(
            Write::Put(write(key, "recommendation", recommendation)?, Condition::Always),
            Purpose::Record,
        );
        Ok(())
    }

    /// Adds the choice of a decision. It is kept like the decision.
    pub(crate) fn resolved_decision(&mut self, decision: &ResolvedDecision) -> Result<(), StoreError> {
        let mut row = write(layout::resolved_decision(decision), "resolved-decision", decision)?;
        self.retain(&mut row, decision.resolved_at);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }
}

impl Store {
    /// The issues of a project of `owner`.
    pub async fn coherence_issues(
        &self,
        owner: &UserId,
        project: ProjectId,
        list: IssueList,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<CoherenceIssue>, StoreError> {
        let prefix = match list {
            IssueList::All => format!("{project}#"),
            IssueList::Open => CoherenceIssue::listing_prefix(project, true),
            IssueList::Ended => CoherenceIssue::listing_prefix(project, false),
        };
        self.list_aggregates_in::<CoherenceIssue>(owner, SortRange::Prefix(prefix), true, limit, after).await
    }

    /// The mark of the last scan; version 0 without one.
    pub async fn scan_mark(&self, project: ProjectId) -> Result<Loaded<ScanMark>, StoreError> {
        let never = ScanMark {
            tick: Tick::ZERO,
            scanned_at: Timestamp::from_millis(0),
            embedded_at: None,
            failed_embeddings: 0,
        };
        Ok(self.load(&layout::coherence_scan(project)).await?.unwrap_or(Loaded::new(never)))
    }

    /// The reviews of a project by a model; version 0 without any.
    pub async fn review_ledger(&self, project: ProjectId) -> Result<Loaded<ReviewLedger>, StoreError> {
        let loaded = self.load(&layout::coherence_reviews(project)).await?;
        Ok(loaded.unwrap_or(Loaded::new(ReviewLedger::default())))
    }

    /// The recommendations for an artifact, the latest first, at most `limit`. Consistent with all earlier commits. A decision may be over.
    pub async fn recommendations(
        &self,
        project: ProjectId,
        artifact: ArtifactId,
        limit: usize,
    ) -> Result<Vec<Recommendation>, StoreError> {
        let query = Query {
            descending: true,
            ..Query::new(layout::recommendations_partition(project, artifact), SortRange::All, limit)
        };
        Ok(self.list(query).await?.items)
    }

    /// The choices that were made in a project, the latest first, at most `limit`.
    pub async fn resolved_decisions(
        &self,
        project: ProjectId,
        limit: usize,
    ) -> Result<Vec<ResolvedDecision>, StoreError> {
        let query = Query {
            descending: true,
            ..Query::new(layout::resolved_decisions_partition(project), SortRange::All, limit)
        };
        Ok(self.list(query).await?.items)
    }
}
