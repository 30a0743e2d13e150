//! The emergency brake (S2 "Emergency Brake", decision 72): stops sessions of an owner, and lets none of them start.
//!
//! A [`Brake`] is recorded twice. The pool has a [`PoolBrake`], which every allocation of a slot checks. The aggregate names the
//! sessions that had a slot then; a reaction puts a hold on each of them.

mod aggregate;
mod error;
mod event;
mod pool_brake;
mod progress;

pub use aggregate::{Brake, BrakeInitiator, BrakeRelease, NewBrake, ReleaseCondition};
pub use error::BrakeError;
pub use event::BrakeEvent;
pub use pool_brake::PoolBrake;
pub use progress::HoldStage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::WorkstreamId;
use crate::value::ProjectMembership;
use crate::{AgentSessionId, ProjectAgentId, ProjectId};

/// Which sessions a brake stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum BrakeScope {
    /// All sessions of the owner.
    All {},
    /// One session, and the session that continues its work.
    Session { session_id: AgentSessionId },
    /// All agents of a project.
    Project { project_id: ProjectId },
    /// The agents of a workstream.
    Workstream { project_id: ProjectId, workstream: WorkstreamId },
    /// One agent of a project, in all its sessions.
    Agent { agent_id: ProjectAgentId },
}

impl BrakeScope {
    /// Whether the scope contains a session, given the agent of a project that it belongs to.
    pub fn contains(&self, session: AgentSessionId, of: Option<&ProjectMembership>) -> bool {
        match self {
            Self::All {} => true,
            Self::Session { session_id } => *session_id == session,
            Self::Project { project_id } => of.is_some_and(|of| of.project_id == *project_id),
            Self::Workstream { project_id, workstream } => {
                of.is_some_and(|of| of.project_id == *project_id && of.workstream == *workstream)
            }
            Self::Agent { agent_id } => of.is_some_and(|of| of.agent_id == *agent_id),
        }
    }
}

/// How a brake stops a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BrakeBehavior {
    /// Pauses the agent. If its adapter cannot pause, its process is ended.
    #[default]
    Pause,
    /// Ends the process. The session keeps its conversation and its requests.
    Kill,
}

crate::names::named!(BrakeBehavior {
    Pause => "pause",
    Kill => "kill",
});

/// What released a brake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReleasedBy {
    Owner,
    Timer,
    /// The approval of a decision in the inbox.
    Decision,
}
