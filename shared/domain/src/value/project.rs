//! The place of a session in a project.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::WorkstreamId;
use crate::{ProjectAgentId, ProjectId};

/// The agent of a project that a session belongs to (S2; decision 71).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectMembership {
    /// The id of the project.
    pub project_id: ProjectId,
    /// The id of the agent.
    pub agent_id: ProjectAgentId,
    /// The workstream that the agent owns.
    pub workstream: WorkstreamId,
}
