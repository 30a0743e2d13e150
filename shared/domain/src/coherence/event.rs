//! Events of coherence issues.

use super::category::CoherenceCategory;
use super::finding::IssueSource;
use super::review::ReviewFailure;
use crate::ProjectId;
use crate::effect::Severity;
use crate::event::aggregate_events;

aggregate_events! {
    pub enum CoherenceEvent {
        /// A layer, an agent or a person found the issue for the first time, or again after it was resolved.
        Detected = "CoherenceIssueDetectedEvent" {
            project_id: ProjectId,
            category: CoherenceCategory,
            severity: Severity,
            source: IssueSource,
        },
        /// A person confirmed that the issue is real. `source` names its finder.
        Confirmed = "CoherenceIssueConfirmedEvent" { project_id: ProjectId, source: IssueSource },
        Dismissed = "CoherenceIssueDismissedEvent" { project_id: ProjectId },
        Resolved = "CoherenceIssueResolvedEvent" { project_id: ProjectId },
        /// A person requested the review by a model.
        ReviewRequested = "CoherenceReviewRequestedEvent" { project_id: ProjectId },
        /// A model reviewed the issue. If it is not `confirmed`, it is dismissed.
        Reviewed = "CoherenceIssueReviewedEvent" {
            project_id: ProjectId,
            confirmed: bool,
            category: CoherenceCategory,
            severity: Severity,
        },
        /// The model gave no valid answer.
        ReviewFailed = "CoherenceReviewFailedEvent" { project_id: ProjectId, failure: ReviewFailure },
    }
}
