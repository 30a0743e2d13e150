//! The plan of an agent in plan mode (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::text::PlanContent;

/// Where a plan stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanStatus {
    /// The agent writes it.
    Draft,
    /// The owner decides.
    PendingApproval,
    /// The agent may proceed.
    Approved,
    /// The agent is to revise it.
    Rejected,
}

/// The plan document of a session (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPlan {
    /// The document; nothing while the agent has not shown one. Some runtimes leave plan mode without a text.
    pub content: Option<PlanContent>,
    /// Where it stands.
    pub status: PlanStatus,
    /// Whether the owner must approve it before the agent proceeds.
    pub requires_approval: bool,
    /// When the agent entered plan mode.
    pub created_at: Timestamp,
    /// When it was approved.
    pub approved_at: Option<Timestamp>,
    /// Counts its revisions from 1.
    pub version: u32,
}
