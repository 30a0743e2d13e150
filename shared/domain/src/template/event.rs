//! Events of a template (S0 8.6).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::TemplateSection;
use crate::event::aggregate_events;
use crate::{AgentSessionId, Timestamp};

/// Why a scheduled time started no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScheduleSkip {
    /// The template is deactivated. Its schedule is suspended until the template is activated.
    Deactivated,
    /// Too many sessions wait for a slot of the pool.
    PoolLineFull,
    /// An earlier session showed that the spend of the agent is unknown, so that its cap cannot be enforced.
    Unmetered,
    /// The operator of the server does not allow the model of the template.
    ModelNotAllowed,
    /// The template names no adapter, and the server has no default adapter.
    NoAdapter,
}

aggregate_events! {
    /// Something that happened to a template.
    pub enum TemplateEvent {
        /// A template was created.
        Created = "AgentTemplateCreatedEvent" { name: String },
        /// A template was changed.
        Updated = "AgentTemplateUpdatedEvent" {
            /// The section that changed.
            part: TemplateSection,
        },
        /// A template was deactivated: no sessions start from it.
        Deactivated = "AgentTemplateDeactivatedEvent" {},
        /// A template was activated again.
        Activated = "AgentTemplateActivatedEvent" {},
        /// A template's schedule started a session.
        ScheduleRan = "AgentTemplateScheduleRanEvent" {
            /// The time of the schedule.
            scheduled_for: Timestamp,
            session_id: AgentSessionId,
            /// The next time of the schedule.
            next_run_at: Option<Timestamp>,
        },
        /// A template's schedule was due but started no session.
        ScheduleSkipped = "AgentTemplateScheduleSkippedEvent" {
            /// The time of the schedule.
            scheduled_for: Timestamp,
            reason: ScheduleSkip,
            /// The next time of the schedule.
            next_run_at: Option<Timestamp>,
        },
    }
}
