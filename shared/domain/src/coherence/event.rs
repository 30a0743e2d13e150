//! What can happen to a coherence issue.

use super::finding::IssueSource;
use crate::ProjectId;
use crate::effect::Severity;
use crate::event::aggregate_events;
use crate::knowledge::CoherenceCategory;

aggregate_events! {
    /// Something that happened to a coherence issue.
    pub enum CoherenceEvent {
        /// It was found for the first time, or again after it was resolved.
        Detected = "CoherenceIssueDetectedEvent" {
            project_id: ProjectId,
            category: CoherenceCategory,
            severity: Severity,
            source: IssueSource,
        },
        /// A person confirmed that it is real. `source` is who found it.
        Confirmed = "CoherenceIssueConfirmedEvent" { project_id: ProjectId, source: IssueSource },
        Dismissed = "CoherenceIssueDismissedEvent" { project_id: ProjectId },
        Resolved = "CoherenceIssueResolvedEvent" { project_id: ProjectId },
    }
}
