//! Why a session refuses an operation. Each error has a stable code and a sentence that says what to do (decision 5).

use crate::escalation::BlockedInput;
use crate::session::{AgentSessionStatus, Operation};
use crate::value::{InvalidBudget, ModelNotAllowed};
use crate::{AgentSessionId, BrakeId, Usd};

/// The session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    #[error("this is not possible while the session is {status}{}", hint(*.operation, *.status))]
    InvalidTransition { operation: Operation, status: AgentSessionStatus },
    /// The budget is used up (decision 32).
    #[error("the budget of {cap} dollars is spent; raise the cap first")]
    BudgetExhausted { cap: Usd },
    /// The agent does not report its cost (decision 32).
    #[error(
        "this agent reports neither its cost nor tokens of a model whose price is known, so that its cap cannot be enforced; allow that with `allowUnmetered` (`pilothouse budget set SESSION --allow-unmetered`), or name the price of its model in the file of PILOTHOUSE_MODELS"
    )]
    Unmetered,
    #[error(transparent)]
    InvalidBudget(#[from] InvalidBudget),
    /// A message was sent and its turn has not started (decision 29).
    #[error("a message was just sent and its turn is about to begin; try again in a moment")]
    TurnStarting,
    #[error("there is output to review; approve or reject it instead")]
    ReviewPending,
    #[error("there is no output to review; close the session instead")]
    NothingToReview,
    /// A newer output replaced the named one (decision 18).
    #[error("the output has changed since you looked at it; read it again and decide on the new one")]
    OutputChanged,
    /// The named request is not open (decision 26).
    #[error("this request is over; the session's open requests are in its `pendingRequests`")]
    RequestOver,
    #[error("this request is not a {expected}")]
    WrongKindOfRequest {
        /// `question` or `plan`.
        expected: &'static str,
    },
    #[error("every question of the request needs one answer; missing: {}", .missing.join(", "))]
    AnswersMissing { missing: Vec<String> },
    /// The project requires a reason for an approval of this tool (S2, `requiresRationale`).
    #[error("the project requires a reason for this permission: resolve its decision with a `rationale`")]
    RationaleMissing,
    /// The maximum number of retries is reached (S0 8.4).
    #[error("the session was already retried {max} times; start a new one")]
    RetriesExhausted { max: u32 },
    /// An emergency brake holds the session.
    #[error("brake {brake_id} holds the session; release it first")]
    Braked { brake_id: BrakeId },
    /// The adapter lacks the capability.
    #[error("this agent cannot {what}")]
    NotCapable {
        /// The missing ability, like `pause`.
        what: &'static str,
    },
    /// Another session continues the work (decision 35).
    #[error("session {continuation} continues the work of this session; use that one")]
    Continued { continuation: AgentSessionId },
    /// The process of the failed run may still have messages that would go to the new session.
    #[error("its process is being stopped; try again in a moment")]
    ProcessStopping,
    #[error("a session can have at most {max} skills")]
    TooManySkills { max: usize },
    #[error("this skill is not enabled on the session")]
    SkillNotEnabled,
    #[error("{max} changes of the agent are under way; wait until they are made")]
    AdjustmentsUnderWay { max: usize },
    /// The template of the session does not allow the model.
    #[error("the model {0}")]
    ModelNotAllowed(#[from] ModelNotAllowed),
    /// The agent chooses the next model from its own list, which the template limits.
    #[error("the template of this session allows only certain models; name one of them")]
    ModelsLimited,
    /// No agent is running, and none reported its models before.
    #[error("no agent is running, and its models are not known; name the model instead")]
    ModelsUnknown,
    #[error("a reload is under way; wait until it is confirmed")]
    ReloadUnderWay,
    /// A guardrail of the agent's brief refuses a text for the agent (decision 79).
    #[error(transparent)]
    InputBlocked(#[from] BlockedInput),
    /// The acknowledgement does not name the pending command of the current run (decision 11).
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
        (Operation::RequestPause, S::Paused) => ": it is paused already",
        (Operation::EnableSkill | Operation::DisableSkill | Operation::RequestReload, _) => {
            "; skills change while it is Idle or Interrupted"
        }
        (Operation::RequestFork, _) => {
            "; a conversation can be rewound, left or labelled while the session is Idle or Interrupted"
        }
        (Operation::RequestCompact, _) => {
            "; a conversation can be summarised while the session is Running, Idle or Interrupted"
        }
        (Operation::RequestResume, _) => "; only a Paused session resumes",
        (Operation::Retry, _) => "; only a Failed session can be retried",
        (Operation::ApproveOutput | Operation::RejectOutput | Operation::Close, S::Running) => {
            ": wait until its turn is over"
        }
        (Operation::AcceptMessage, S::Failed) => "; retry it first",
        (Operation::RequestCancel, S::ContextExhausted) => {
            ": its continuation is about to start; cancel that session, or the chain"
        }
        (Operation::AcceptMessage, S::ContextExhausted) => {
            ": its context window is full and its continuation is about to start; send the message there"
        }
        _ => "",
    }
}

impl SessionError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidTransition { .. } => "invalid-transition",
            Self::BudgetExhausted { .. } => "budget-exhausted",
            Self::Unmetered => "unmetered",
            Self::InvalidBudget(InvalidBudget::CapBelowSpend { .. }) => "cap-below-spend",
            Self::InvalidBudget(_)
            | Self::AnswersMissing { .. }
            | Self::RationaleMissing
            | Self::ModelNotAllowed(_) => "validation-failed",
            Self::TurnStarting => "turn-starting",
            Self::ReviewPending => "review-pending",
            Self::NothingToReview => "nothing-to-review",
            Self::OutputChanged => "output-changed",
            Self::RequestOver => "request-over",
            Self::WrongKindOfRequest { .. } => "wrong-request",
            Self::RetriesExhausted { .. } => "retries-exhausted",
            Self::Braked { .. } => "braked",
            Self::NotCapable { .. } => "not-supported",
            Self::Continued { .. } => "continued",
            Self::ProcessStopping => "process-stopping",
            Self::TooManySkills { .. } => "too-many-skills",
            Self::SkillNotEnabled => "skill-not-enabled",
            Self::AdjustmentsUnderWay { .. } => "adjustments-under-way",
            Self::ModelsLimited => "models-limited",
            Self::ModelsUnknown => "models-unknown",
            Self::ReloadUnderWay => "reload-under-way",
            Self::InputBlocked(_) => "guardrail-blocked",
            Self::StaleAck => "stale-ack",
        }
    }
}
