//! The plan of an agent in plan mode (S0 8.5).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::text::PlanContent;

/// Status of a plan (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlanStatus {
    /// The agent is writing the plan.
    Draft,
    /// The plan waits for the owner's decision.
    PendingApproval,
    /// The agent may proceed.
    Approved,
    /// The agent has to revise the plan.
    Rejected,
}

/// Plan document of a session (S0 8.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionPlan {
    /// Text of the plan; `null` until the agent submits it. Some runtimes leave plan mode without a text.
    pub content: Option<PlanContent>,
    pub status: PlanStatus,
    /// Whether the owner has to approve the plan before the agent proceeds.
    pub requires_approval: bool,
    /// When the agent entered plan mode.
    pub created_at: Timestamp,
    pub approved_at: Option<Timestamp>,
    /// Revision of the plan, from 1.
    pub version: u32,
}
