//! Decisions that wait for a person (S2; decision 70).

mod timeout;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

pub use timeout::{
    DecisionTimeoutPolicy, InvalidTimeout, OnTimeout, TimedDecision, TimeoutAction, TimeoutOverrides,
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
    CrashRecovery,
    CoherenceReview,
    BrakeRelease,
    HandoffFailed,
}

named!(DecisionKind {
    Option => "option",
    ToolApproval => "tool_approval",
    Question => "question",
    Plan => "plan",
    OutputReview => "output_review",
    CrashRecovery => "crash_recovery",
    CoherenceReview => "coherence_review",
    BrakeRelease => "brake_release",
    HandoffFailed => "handoff_failed",
});
