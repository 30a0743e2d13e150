//! Decisions that wait for a person (S2; decisions 70 and 74).
//!
//! | module | contents |
//! |---|---|
//! | `coherence` | the choices that artifacts are compared with; the outcomes of an issue that a model confirmed |
//! | `fit` | which resolutions fit a decision |
//! | `free` | decisions without a session that guards them |
//! | `log` | the decision log of a project |
//! | `operation` | which operation leads from which status of a free decision to which |
//! | `orphan` | what becomes of decisions whose session ended |
//! | `outcome` | which outcome for trust a decision, a failure or a completed session has |
//! | `record` | a decision of the inbox with its state |
//! | `recovery` | how an agent of a project continues after a crash |
//! | `resolution` | what a person may answer |
//! | `subject` | what a decision is about |
//! | `timeout` | what a timeout does in a project |
//! | `words` | what a person says to the agent in a resolution |

mod coherence;
mod fit;
mod free;
mod log;
mod operation;
mod orphan;
mod outcome;
mod record;
mod recovery;
mod resolution;
mod subject;
mod timeout;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;

pub use coherence::CoherenceOutcome;
pub use free::{FreeDecision, FreeDecisionError};
pub use log::{BrakeAction, BrakeActor, DecisionLogEntry, KnowledgeAccess, LoggedDecision};
pub use operation::{FreeOperation, FreeStatus};
pub use orphan::{InvalidOrphanPolicy, OrphanAction, OrphanActions, OrphanStage, OrphanedDecisionPolicy};
pub use record::{
    CancelReason, Decision, DecisionChange, DecisionSession, DecisionState, DecisionStatus,
    ResolutionDelivery, ResolvedBy, Ruling, decision_id,
};
pub use recovery::{
    AutoRestartConditions, AutomaticRecovery, ChainOutcome, CrashRecoveryPolicy, InvalidRecoveryPolicy,
    Recovery,
};
pub use resolution::{
    ApprovalTerms, DecisionOption, Misfit, OwnerDecision, ProposedResolution, Resolution, ResolutionType,
};
pub use subject::DecisionSubject;
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
    /// The release of a brake.
    BrakeRelease,
    /// How an agent of a project continues after it failed.
    CrashRecovery,
    /// What becomes of a chain whose work cannot be handed over.
    HandoffFailed,
    /// Whether an agent of a project may perform one kind of action without asking.
    Autonomy,
    /// The outcome of a coherence issue that a model confirmed.
    CoherenceReview,
}

impl DecisionKind {
    pub const ALL: [Self; 10] = [
        Self::Option,
        Self::ToolApproval,
        Self::Question,
        Self::Plan,
        Self::OutputReview,
        Self::BrakeRelease,
        Self::CrashRecovery,
        Self::HandoffFailed,
        Self::Autonomy,
        Self::CoherenceReview,
    ];
}

named!(DecisionKind {
    Option => "option",
    ToolApproval => "tool_approval",
    Question => "question",
    Plan => "plan",
    OutputReview => "output_review",
    BrakeRelease => "brake_release",
    CrashRecovery => "crash_recovery",
    HandoffFailed => "handoff_failed",
    Autonomy => "autonomy",
    CoherenceReview => "coherence_review",
});
