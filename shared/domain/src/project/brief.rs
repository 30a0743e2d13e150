//! What the briefs of a project's agents say about the project (S2 `ProjectBrief`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ProjectError;
use crate::text::{
    BriefConstraint, Checkpoint, Goal, ProjectDescription, ProjectName, WorkstreamId, WorkstreamName,
};

/// The brief of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectBrief {
    /// The name of the project.
    pub name: ProjectName,
    /// The purpose and background of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<ProjectDescription>,
    /// What the project is to achieve.
    #[serde(default)]
    pub goals: Vec<Goal>,
    /// States of the work that people want to look at, in order.
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
    /// The id of the workstream, unique in its project.
    pub id: WorkstreamId,
    /// The name of the workstream.
    pub name: WorkstreamName,
    /// What the workstream is to achieve.
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
