//! What can happen to an agent of a project.

use crate::event::aggregate_events;
use crate::text::WorkstreamId;
use crate::{AgentSessionId, ProjectId};

aggregate_events! {
    /// Something that happened to an agent of a project.
    pub enum ProjectAgentEvent {
        /// The agent was created with its first session.
        Spawned = "ProjectAgentSpawnedEvent" {
            project_id: ProjectId,
            session_id: AgentSessionId,
            workstream: WorkstreamId,
        },
        /// Another session continues the agent's work.
        SessionChanged = "ProjectAgentSessionChangedEvent" { from: AgentSessionId, to: AgentSessionId },
        BriefUpdated = "ProjectAgentBriefUpdatedEvent" { version: u32 },
    }
}
