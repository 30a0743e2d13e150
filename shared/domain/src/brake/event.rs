//! Events of a brake.

use crate::event::aggregate_events;
use crate::{AgentSessionId, BrakeId};

use super::{BrakeBehavior, BrakeScope, ReleasedBy};

aggregate_events! {
    /// Something that happened to a brake.
    pub enum BrakeEvent {
        /// The brake was pulled. `session_count` sessions had a run then.
        Pulled = "BrakePulledEvent" {
            brake_id: BrakeId,
            scope: BrakeScope,
            behavior: BrakeBehavior,
            reason: String,
            session_count: usize,
        },
        /// Some sessions were released. The brake holds the others.
        SessionsReleased = "BrakeSessionsReleasedEvent" { brake_id: BrakeId, session_ids: Vec<AgentSessionId> },
        /// The whole brake was released.
        Released = "BrakeReleasedEvent" { brake_id: BrakeId, by: ReleasedBy },
    }
}
