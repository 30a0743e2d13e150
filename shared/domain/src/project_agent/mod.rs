//! The `ProjectAgent` aggregate: S2's *agent* (decision 71). It outlives its sessions.
//!
//! | module | contents |
//! |---|---|
//! | `brief` | what the agent is, may do, and must follow |
//! | `provider_config` | which options a brief may pass to its adapter |
//! | `prompt` | the part of the system prompt that a brief becomes |

mod brief;
mod event;
mod prompt;
mod provider_config;

use serde::{Deserialize, Serialize};

pub use brief::{AgentBrief, BriefViolation};
pub use event::ProjectAgentEvent;
pub use prompt::brief_prompt;

use crate::tick::Tick;
use crate::trust::{TrustCalibrationProfile, TrustProfile};
use crate::value::ProjectMembership;
use crate::{AgentSessionId, Aggregate, DomainContext, ProjectAgentId, ProjectId, Timestamp, UserId};

/// An agent of a project. Its status follows from its current session: [`crate::project::AgentStatus`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProjectAgent {
    id: ProjectAgentId,
    owner_id: UserId,
    project_id: ProjectId,
    brief: AgentBrief,
    /// Increases with each change of the brief, from 1.
    brief_version: u32,
    current_session_id: AgentSessionId,
    /// Number of sessions so far.
    session_count: u32,
    trust: TrustProfile,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Input for creating an agent (S2 `spawn`).
#[derive(Debug, Clone, PartialEq)]
pub struct NewAgent {
    pub id: ProjectAgentId,
    pub owner_id: UserId,
    pub project_id: ProjectId,
    pub brief: AgentBrief,
    /// The session that the agent starts with.
    pub session_id: AgentSessionId,
}

impl NewAgent {
    /// What the agent's sessions know of their project.
    pub fn membership(&self) -> ProjectMembership {
        ProjectMembership {
            project_id: self.project_id,
            agent_id: self.id,
            workstream: self.brief.workstream.clone(),
        }
    }
}

impl ProjectAgent {
    /// Creates an agent. The brief has been checked against its project.
    pub fn spawn(
        new: NewAgent,
        trust: &TrustCalibrationProfile,
        ctx: &DomainContext<'_>,
    ) -> (Self, Vec<ProjectAgentEvent>) {
        let spawned = ProjectAgentEvent::Spawned {
            project_id: new.project_id,
            session_id: new.session_id,
            workstream: new.brief.workstream.clone(),
        };
        let agent = Self {
            id: new.id,
            owner_id: new.owner_id,
            project_id: new.project_id,
            brief: new.brief,
            brief_version: 1,
            current_session_id: new.session_id,
            session_count: 1,
            trust: TrustProfile::new(trust, Tick::ZERO),
            created_at: ctx.now,
            updated_at: ctx.now,
        };
        (agent, vec![spawned])
    }

    /// Makes `session` the current one, because it continues the work of the agent's current session.
    pub fn continue_in(
        &mut self,
        session: AgentSessionId,
        ctx: &DomainContext<'_>,
    ) -> Vec<ProjectAgentEvent> {
        if self.current_session_id == session {
            return Vec::new();
        }
        let from = std::mem::replace(&mut self.current_session_id, session);
        self.session_count = self.session_count.saturating_add(1);
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::SessionChanged { from, to: session }]
    }

    /// Replaces the brief. It takes effect with the next run or reload of the session. The workstream of an agent does not change,
    /// because its project counts on it.
    pub fn update_brief(&mut self, brief: AgentBrief, ctx: &DomainContext<'_>) -> Vec<ProjectAgentEvent> {
        if self.brief == brief {
            return Vec::new();
        }
        self.brief = brief;
        self.brief_version = self.brief_version.saturating_add(1);
        self.updated_at = ctx.now;
        vec![ProjectAgentEvent::BriefUpdated { version: self.brief_version }]
    }
}

/// Read access.
impl ProjectAgent {
    pub const fn id(&self) -> ProjectAgentId {
        self.id
    }

    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    pub const fn project_id(&self) -> ProjectId {
        self.project_id
    }

    pub const fn brief(&self) -> &AgentBrief {
        &self.brief
    }

    pub const fn brief_version(&self) -> u32 {
        self.brief_version
    }

    pub const fn current_session_id(&self) -> AgentSessionId {
        self.current_session_id
    }

    pub const fn session_count(&self) -> u32 {
        self.session_count
    }

    pub const fn trust(&self) -> &TrustProfile {
        &self.trust
    }

    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }
}

impl Aggregate for ProjectAgent {
    type Id = ProjectAgentId;
    type Event = ProjectAgentEvent;

    const KIND: &'static str = "agent";

    fn id(&self) -> ProjectAgentId {
        self.id
    }

    fn owner_id(&self) -> &UserId {
        &self.owner_id
    }
}
