//! What can happen to a project.

use crate::ProjectAgentId;
use crate::control_mode::{ControlMode, ModeRevision};
use crate::event::aggregate_events;
use crate::text::{ProjectName, WorkstreamId};

aggregate_events! {
    /// Something that happened to a project.
    pub enum ProjectEvent {
        Created = "ProjectCreatedEvent" { name: ProjectName },
        /// The brief, the workstreams or the policies changed.
        Updated = "ProjectUpdatedEvent" {},
        ControlModeChanged = "ControlModeChangedEvent" {
            from: ControlMode,
            to: ControlMode,
            revision: ModeRevision,
        },
        /// A person advanced the ticks.
        TicksAdvanced = "ProjectTicksAdvancedEvent" { ticks: u64 },
        /// An agent joined the project.
        AgentAdded = "ProjectAgentAddedEvent" { agent_id: ProjectAgentId, workstream: WorkstreamId },
        /// No agents can be started any more.
        Archived = "ProjectArchivedEvent" {},
        Restored = "ProjectRestoredEvent" {},
    }
}
