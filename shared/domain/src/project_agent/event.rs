//! What can happen to an agent of a project.

use crate::effect::ActionKind;
use crate::event::aggregate_events;
use crate::injection::InjectionPriority;
use crate::text::WorkstreamId;
use crate::tick::Tick;
use crate::trust::{AutonomyChange, Points, TrustEntry};
use crate::{AgentSessionId, DecisionId, EventId, MessageId, ProjectId};

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
        /// A person approved all further calls of a tool in the current session.
        ToolApproved = "ProjectAgentToolApprovedEvent" { decision_id: DecisionId, tool: String },
        /// The session of the agent failed. `consecutive` crashes came without a completed turn between them.
        Crashed = "ProjectAgentCrashedEvent" {
            session_id: AgentSessionId,
            consecutive: u32,
            decision_id: DecisionId,
        },
        BriefUpdated = "ProjectAgentBriefUpdatedEvent" { version: u32 },
        /// The brief of the project changed, which is part of what the agent receives.
        ProjectBriefChanged = "ProjectAgentProjectBriefChangedEvent" {},
        /// The agent received knowledge of its project.
        ContextInjected = "ProjectAgentContextInjectedEvent" {
            message_id: MessageId,
            session_id: AgentSessionId,
            snapshot_version: u64,
            estimated_tokens: u64,
            priority: InjectionPriority,
        },
        /// An outcome changed the trust of the agent. `caused_by` is the journal entry of the session with the outcome.
        TrustChanged = "ProjectAgentTrustChangedEvent" {
            entry: Box<TrustEntry>,
            session_id: AgentSessionId,
            caused_by: EventId,
        },
        /// The project's trust configuration took effect for the agent. `score` is the one in force since then.
        TrustConfigured = "ProjectAgentTrustConfiguredEvent" {
            tick: Tick,
            score: Points,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            autonomy: Vec<AutonomyChange>,
        },
        /// A person granted or declined the autonomy that the agent proposed.
        AutonomyAnswered = "ProjectAgentAutonomyAnsweredEvent" {
            decision_id: DecisionId,
            action_kind: ActionKind,
            granted: bool,
        },
    }
}
