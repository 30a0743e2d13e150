//! Why a session refuses (ruling 5: each has a stable code and a sentence that says what to do).

use crate::session::{AgentSessionStatus, Operation};
use crate::value::InvalidBudget;
use crate::{AgentSessionId, Usd};

/// A refusal. The session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The operation does not fit the status.
    #[error("this is not possible while the session is {status}{}", hint(*.operation, *.status))]
    InvalidTransition {
        /// What was asked.
        operation: Operation,
        /// Where the session stands.
        status: AgentSessionStatus,
    },
    /// Nothing is left of the budget (ruling 32).
    #[error("the budget of {cap} dollars is spent; raise the cap first")]
    BudgetExhausted {
        /// The cap.
        cap: Usd,
    },
    /// A budget that cannot be.
    #[error(transparent)]
    InvalidBudget(#[from] InvalidBudget),
    /// A message was sent and its turn has not begun (ruling 29).
    #[error("a message was just sent and its turn is about to begin; try again in a moment")]
    TurnStarting,
    /// There is output to decide on.
    #[error("there is output to review; approve or reject it instead")]
    ReviewPending,
    /// There is no output to decide on.
    #[error("there is no output to review; close the session instead")]
    NothingToReview,
    /// The output that was named is not the latest (ruling 18).
    #[error("the output has changed since you looked at it; read it again and decide on the new one")]
    OutputChanged,
    /// The request that was named is not open (ruling 26).
    #[error("this request is over; the session's open requests are in its `pendingRequests`")]
    RequestOver,
    /// The request is of the other kind.
    #[error("this request is not a {expected}")]
    WrongKindOfRequest {
        /// What was expected: `question` or `plan`.
        expected: &'static str,
    },
    /// Not every question of the request has an answer.
    #[error("every question of the request needs one answer; missing: {}", .missing.join(", "))]
    AnswersMissing {
        /// The questions without an answer.
        missing: Vec<String>,
    },
    /// Retried too often (S0 8.4).
    #[error("the session was already retried {max} times; start a new one")]
    RetriesExhausted {
        /// The most retries.
        max: u32,
    },
    /// The adapter cannot do it.
    #[error("this agent cannot {what}")]
    NotCapable {
        /// What: `pause`.
        what: &'static str,
    },
    /// Its work goes on in another session (ruling 35).
    #[error("the work of this session goes on in session {continuation}; do it there")]
    Continued {
        /// That session.
        continuation: AgentSessionId,
    },
    /// More skills than a session may have.
    #[error("a session can have at most {max} skills")]
    TooManySkills {
        /// The most.
        max: usize,
    },
    /// The skill is none of the session's.
    #[error("this skill is not enabled on the session")]
    SkillNotEnabled,
    /// More changes of how the agent works than can be under way at once.
    #[error("{max} changes of the agent are under way; wait until they are made")]
    AdjustmentsUnderWay {
        /// The most.
        max: usize,
    },
    /// There is no agent to ask, and none told which models it has.
    #[error("no agent is running, and its models are not known; name the model instead")]
    ModelsUnknown,
    /// The configuration is being loaded.
    #[error("a reload is under way; wait until it is confirmed")]
    ReloadUnderWay,
    /// The acknowledgement names no outstanding command of the current run (ruling 11).
    #[error("the acknowledgement does not belong to the outstanding command")]
    StaleAck,
}

fn hint(operation: Operation, status: AgentSessionStatus) -> &'static str {
    use AgentSessionStatus as S;
    match (operation, status) {
        (_, S::Interrupting | S::Pausing | S::Resuming | S::Cancelling) => {
            ": an earlier request is under way; wait for it"
        }
        (Operation::RequestPause | Operation::RequestInterrupt, S::Idle) => ": no turn is running",
        (Operation::RequestPause, S::Paused) => ": it is suspended already",
        (Operation::EnableSkill | Operation::DisableSkill | Operation::RequestReload, _) => {
            "; skills change while it is Idle or Interrupted"
        }
        (Operation::RequestFork, _) => {
            "; a conversation goes back between turns, while it is Idle or Interrupted"
        }
        (Operation::RequestCompact, _) => {
            "; a conversation is summarised while it is Running, Idle or Interrupted"
        }
        (Operation::RequestResume, _) => "; only a Paused session resumes",
        (Operation::Retry, _) => "; only a Failed session can be retried",
        (Operation::ApproveOutput | Operation::RejectOutput | Operation::Close, S::Running) => {
            ": wait until its turn is over"
        }
        (Operation::AcceptMessage, S::Failed) => "; retry it first",
        (Operation::RequestCancel, S::ContextExhausted) => {
            ": a session that goes on with its work is about to begin; cancel that one, or the chain"
        }
        (Operation::AcceptMessage, S::ContextExhausted) => {
            ": its context window is full; a session that goes on with its work is about to begin, send it there"
        }
        _ => "",
    }
}

impl SessionError {
    /// The stable code (ruling 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. } => "invalid-transition",
            Self::BudgetExhausted { .. } => "budget-exhausted",
            Self::InvalidBudget(InvalidBudget::CapBelowSpend { .. }) => "cap-below-spend",
            Self::InvalidBudget(_) | Self::AnswersMissing { .. } => "validation-failed",
            Self::TurnStarting => "turn-starting",
            Self::ReviewPending => "review-pending",
            Self::NothingToReview => "nothing-to-review",
            Self::OutputChanged => "output-changed",
            Self::RequestOver => "request-over",
            Self::WrongKindOfRequest { .. } => "wrong-request",
            Self::RetriesExhausted { .. } => "retries-exhausted",
            Self::NotCapable { .. } => "not-supported",
            Self::Continued { .. } => "continued",
            Self::TooManySkills { .. } => "too-many-skills",
            Self::SkillNotEnabled => "skill-not-enabled",
            Self::AdjustmentsUnderWay { .. } => "adjustments-under-way",
            Self::ModelsUnknown => "models-unknown",
            Self::ReloadUnderWay => "reload-under-way",
            Self::StaleAck => "stale-ack",
        }
    }
}
