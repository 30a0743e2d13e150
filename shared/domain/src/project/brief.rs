//! What the agents of a project are told about it (S2 `ProjectBrief`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProjectError;
use crate::text::{
    BriefConstraint, Checkpoint, Goal, ProjectDescription, ProjectName, WorkstreamId, WorkstreamName,
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectBrief {
    pub name: ProjectName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<ProjectDescription>,
    #[serde(default)]
    pub goals: Vec<Goal>,
    /// In the order in which they are reached.
    #[serde(default)]
    pub checkpoints: Vec<Checkpoint>,
    /// Rules for all agents of the project.
    #[serde(default)]
    pub constraints: Vec<BriefConstraint>,
}

/// A part of the work, which agents own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workstream {
    pub id: WorkstreamId,
    pub name: WorkstreamName,
    #[serde(default)]
    pub goals: Vec<Goal>,
}

impl ProjectBrief {
    /// Most goals, checkpoints and constraints, each.
    pub const MAX_ENTRIES: usize = 50;

    pub(super) fn check(&self) -> Result<(), ProjectError> {
        let lists = [
            ("goals", self.goals.len()),
            ("checkpoints", self.checkpoints.len()),
            ("constraints", self.constraints.len()),
        ];
        for (what, count) in lists {
            ProjectError::check_count(what, count, Self::MAX_ENTRIES)?;
        }
        Ok(())
    }
}

impl Workstream {
    /// Most goals of a workstream.
    pub const MAX_GOALS: usize = 20;
}
