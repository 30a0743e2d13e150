//! What can happen to the account of a project.

use crate::event::aggregate_events;
use crate::project::SpendingCap;
use crate::text::ProjectName;
use crate::{BrakeId, ProjectAgentId, Usd};

aggregate_events! {
    /// Something that happened to the account of a project.
    pub enum ProjectAccountEvent {
        /// `cap` is `None` if the project has no cap any more.
        CapChanged = "ProjectSpendingCapChangedEvent" { cap: Option<SpendingCap> },
        /// An agent received a slice. `drawn_usd` is the sum of all agents.
        SliceDrawn = "ProjectSliceDrawnEvent" {
            agent_id: ProjectAgentId,
            slice: u32,
            usd: Usd,
            drawn_usd: Usd,
        },
        /// The session of an agent ended, and did not use the whole slice.
        SliceReturned = "ProjectSliceReturnedEvent" { agent_id: ProjectAgentId, usd: Usd, drawn_usd: Usd },
        /// Models of the control plane reviewed coherence issues or embedded texts. `usd` is the cost of all of that so far.
        ReviewsCounted = "ProjectReviewsCountedEvent" { usd: Usd, drawn_usd: Usd },
        /// Nothing is left for another slice.
        SliceRefused = "ProjectSliceRefusedEvent" { agent_id: ProjectAgentId, overshoot_usd: Usd },
        /// The account crossed the warning threshold.
        Warning = "ProjectSpendingWarningEvent" { project: ProjectName, drawn_usd: Usd, cap_usd: Usd },
        /// The account is empty, and the brake stops the project.
        Braked = "ProjectSpendingCapReachedEvent" { project: ProjectName, brake_id: BrakeId, cap_usd: Usd },
    }
}
