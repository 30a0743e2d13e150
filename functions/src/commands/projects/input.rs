//! Inputs that the creation and the update of a project share.

use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_domain::project::Workstream;
use pilothouse_domain::text::{Goal, WorkstreamId, WorkstreamName};
use schemars::JsonSchema;

/// A part of the work.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct WorkstreamInput {
    /// The id of the workstream, unique in its project: letters, digits, `-`, `_` and `.`.
    pub id: WorkstreamId,
    /// The name of the workstream.
    pub name: WorkstreamName,
    /// What the workstream is to achieve: at most 20 goals. Default: none.
    #[deserr(default)]
    #[schemars(default)]
    pub goals: Vec<Goal>,
}

impl From<WorkstreamInput> for Workstream {
    fn from(WorkstreamInput { id, name, goals }: WorkstreamInput) -> Self {
        Self { id, name, goals }
    }
}
