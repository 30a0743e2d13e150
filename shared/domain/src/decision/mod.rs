//! Decisions that wait for a person (S2; decisions 70 and 74).
//!
//! | module | contents |
//! |---|---|
//! | `log` | the decision log of a project |
//! | `outcome` | which outcome for trust a decision, a failure or a completed session has |
//! | `record` | a decision of the inbox with its state |
//! | `resolution` | what a person may answer |
//! | `timeout` | what a timeout does in a project |

mod log;
mod outcome;
mod record;
mod resolution;
mod timeout;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

pub use log::{BrakeAction, BrakeActor, DecisionLogEntry, LoggedDecision};
pub use record::{
    CancelReason, Decision, DecisionState, DecisionStatus, DecisionSubject, ResolutionDelivery, ResolvedBy,
    Ruling, decision_id,
};
pub use resolution::{
    ApprovalTerms, DecisionOption, Misfit, OwnerDecision, ProposedResolution, Resolution, ResolutionType,
};
pub use timeout::{
    DecisionTimeout, DecisionTimeoutPolicy, InvalidTimeout, OnTimeout, TimedDecision, TimedOut,
    TimeoutAction, TimeoutEffect, TimeoutOverrides, TimeoutRule, TimeoutTerms,
};

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecisionKind {
    /// The agent proposes options.
    Option,
    ToolApproval,
    Question,
    Plan,
    OutputReview,
}

impl DecisionKind {
    pub const ALL: [Self; 5] =
        [Self::Option, Self::ToolApproval, Self::Question, Self::Plan, Self::OutputReview];
}

named!(DecisionKind {
    Option => "option",
    ToolApproval => "tool_approval",
    Question => "question",
    Plan => "plan",
    OutputReview => "output_review",
});
