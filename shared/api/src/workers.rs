//! Workers in the API.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::project_agent::WorkspaceOffer;
use pilothouse_domain::{RunId, Timestamp};
use pilothouse_wire::worker::WorkerId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A worker of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// The name of the worker, unique among the owner's workers.
    pub id: WorkerId,
    /// Whether the worker sent a heartbeat recently. Other workers receive no runs.
    pub alive: bool,
    /// Whether the worker is shutting down and receives no more runs.
    pub draining: bool,
    /// Whether the worker runs the sessions of all owners.
    pub shared: bool,
    /// The labels that sessions can select.
    pub labels: BTreeMap<String, String>,
    /// The workspace that the worker offers to agents.
    pub workspace: WorkspaceOffer,
    /// The maximum number of concurrent runs.
    pub capacity: u32,
    /// The runs that were assigned to the worker and have not ended.
    pub runs: BTreeSet<RunId>,
    /// The time of the last heartbeat.
    pub seen_at: Timestamp,
    /// The time of the first heartbeat.
    pub registered_at: Timestamp,
}
