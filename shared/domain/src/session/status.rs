//! The statuses of a session and the one table of what may follow what (S0 8.4, as amended by the rulings).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where a session stands (S0 8.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum AgentSessionStatus {
    /// Waits for a slot of the pool, or for its sidecar to be ready.
    Queued,
    /// The agent works.
    Running,
    /// An interrupt was requested and is not yet acknowledged.
    Interrupting,
    /// The turn was ended by its owner; takes messages.
    Interrupted,
    /// A pause was requested and is not yet acknowledged.
    Pausing,
    /// Suspended.
    Paused,
    /// A resume was requested and is not yet acknowledged.
    Resuming,
    /// A cancellation was requested and is not yet acknowledged.
    Cancelling,
    /// Ended by its owner.
    Cancelled,
    /// The agent asked and waits for the answer.
    WaitingForInput,
    /// The agent showed a plan and waits for the decision.
    WaitingForApproval,
    /// The normal resting state; takes messages.
    Idle,
    /// The context window is full; terminal for input.
    ContextExhausted,
    /// Closed or approved.
    Completed,
    /// Ended by an error or a rejection; may be retried.
    Failed,
}

impl AgentSessionStatus {
    /// Every status, in the order of S0 8.5.
    pub const ALL: [Self; 15] = [
        Self::Queued,
        Self::Running,
        Self::Interrupting,
        Self::Interrupted,
        Self::Pausing,
        Self::Paused,
        Self::Resuming,
        Self::Cancelling,
        Self::Cancelled,
        Self::WaitingForInput,
        Self::WaitingForApproval,
        Self::Idle,
        Self::ContextExhausted,
        Self::Completed,
        Self::Failed,
    ];

    /// A request waits for its acknowledgement (S0 8.5).
    pub const fn is_intermediate(self) -> bool {
        matches!(self, Self::Interrupting | Self::Pausing | Self::Resuming | Self::Cancelling)
    }

    /// Nothing follows but a retry (S0 8.5).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Cancelled | Self::Completed | Self::ContextExhausted | Self::Failed)
    }

    /// The agent waits for its owner.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::WaitingForInput | Self::WaitingForApproval)
    }

    /// Keeps its status when its process is gone (ruling 14).
    pub const fn survives_its_process(self) -> bool {
        matches!(
            self,
            Self::Idle | Self::Interrupted | Self::Paused | Self::WaitingForInput | Self::WaitingForApproval
        )
    }
}

impl std::fmt::Display for AgentSessionStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// What can be done to a session. Names follow the methods of S0 8.4; a ruling stands where S0 has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The sidecar is ready and the agent begins.
    Start,
    /// A turn begins.
    StartTurn,
    /// A turn ends without output.
    RecordTurnCompleted,
    /// A turn ends with output, or output follows it (ruling 18).
    RecordOutput,
    /// The owner ends the turn.
    RequestInterrupt,
    /// The sidecar did it.
    ConfirmInterrupted,
    /// The sidecar did it, but the turn had already ended by itself (ruling 17).
    ConfirmInterruptedTurnOver,
    /// The owner, or the budget, suspends.
    RequestPause,
    /// The sidecar did it.
    ConfirmPaused,
    /// The owner goes on.
    RequestResume,
    /// The sidecar did it.
    ConfirmResumed,
    /// The process was stopped before it resumed (ruling 12).
    AbandonResume,
    /// The owner ends the session.
    RequestCancel,
    /// The sidecar did it, or there was none.
    ConfirmCancelled,
    /// The context window is full.
    RecordContextExhausted,
    /// The agent hands over by itself.
    RecordVoluntaryHandoff,
    /// The window passed its warning threshold.
    RecordContextNearingLimit,
    /// The agent asks.
    RecordUserQuestionAsked,
    /// The owner answers.
    RecordUserQuestionAnswered,
    /// The owner answers a session whose process is gone (ruling 26).
    AnswerHibernated,
    /// The agent enters plan mode.
    RecordPlanCreated,
    /// The agent shows its plan and must wait.
    RecordPlanPendingApproval,
    /// The agent shows its plan and need not wait.
    RecordPlanAutoApproved,
    /// The owner approves the plan.
    RecordPlanApproved,
    /// The owner rejects the plan.
    RecordPlanRejected,
    /// The result of the tool call that asked arrives (ruling 26).
    CloseRequest,
    /// The agent replaces its task list.
    UpdateSessionTaskList,
    /// The agent reports usage.
    UpdateMetrics,
    /// A skill is loaded into the session.
    EnableSkill,
    /// A skill is taken out of it.
    DisableSkill,
    /// The sidecar is to take a new configuration.
    RequestReload,
    /// It did.
    ConfirmReloaded,
    /// The owner has the agent work with another model, or think more or less deeply.
    RequestAdjustment,
    /// The owner has the conversation summarised.
    RequestCompact,
    /// The owner has the conversation go back to before a turn.
    RequestFork,
    /// The plan that pays for the agent is used up (ruling 39).
    RecordQuotaExceeded,
    /// The agent's deliverables changed (S4).
    RecordDeliverables,
    /// The owner approves the output.
    ApproveOutput,
    /// The owner rejects the output.
    RejectOutput,
    /// The owner closes the session.
    Close,
    /// It failed.
    RecordFailure,
    /// No sidecar got ready for it (ruling 12).
    FailLaunch,
    /// The owner tries again.
    Retry,
    /// The cap changes.
    ChangeBudget,
    /// A message is put in its queue (ruling 28).
    AcceptMessage,
    /// Its process is gone, its status stays (rulings 14, 22).
    Hibernate,
    /// A new run takes it up (ruling 22).
    Wake,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 47] = [
        Self::Start,
        Self::StartTurn,
        Self::RecordTurnCompleted,
        Self::RecordOutput,
        Self::RequestInterrupt,
        Self::ConfirmInterrupted,
        Self::ConfirmInterruptedTurnOver,
        Self::RequestPause,
        Self::ConfirmPaused,
        Self::RequestResume,
        Self::ConfirmResumed,
        Self::AbandonResume,
        Self::RequestCancel,
        Self::ConfirmCancelled,
        Self::RecordContextExhausted,
        Self::RecordVoluntaryHandoff,
        Self::RecordContextNearingLimit,
        Self::RecordUserQuestionAsked,
        Self::RecordUserQuestionAnswered,
        Self::AnswerHibernated,
        Self::RecordPlanCreated,
        Self::RecordPlanPendingApproval,
        Self::RecordPlanAutoApproved,
        Self::RecordPlanApproved,
        Self::RecordPlanRejected,
        Self::CloseRequest,
        Self::UpdateSessionTaskList,
        Self::UpdateMetrics,
        Self::EnableSkill,
        Self::DisableSkill,
        Self::RequestReload,
        Self::ConfirmReloaded,
        Self::RequestAdjustment,
        Self::RequestCompact,
        Self::RequestFork,
        Self::RecordQuotaExceeded,
        Self::RecordDeliverables,
        Self::ApproveOutput,
        Self::RejectOutput,
        Self::Close,
        Self::RecordFailure,
        Self::FailLaunch,
        Self::Retry,
        Self::ChangeBudget,
        Self::AcceptMessage,
        Self::Hibernate,
        Self::Wake,
    ];

    /// **The transition table**: the status that follows `from`, or none where the operation is not valid.
    ///
    /// Answering, deciding and closing a request lead to Running when it was the last open one; the aggregate
    /// stays waiting while another blocks (ruling 26).
    #[allow(clippy::match_same_arms)] // one line an operation, in the order of S0
    pub const fn next(self, from: AgentSessionStatus) -> Option<AgentSessionStatus> {
        use AgentSessionStatus as S;
        let to = match (self, from) {
            (Self::Start, S::Queued) => S::Running,
            (Self::StartTurn, S::Idle | S::Interrupted | S::Running) => S::Running,

            (Self::RecordTurnCompleted, S::Running | S::WaitingForInput | S::WaitingForApproval) => S::Idle,
            (Self::RecordOutput, S::Running | S::WaitingForInput | S::WaitingForApproval | S::Idle) => {
                S::Idle
            }

            (Self::RequestInterrupt, S::Running | S::WaitingForInput | S::WaitingForApproval) => {
                S::Interrupting
            }
            (Self::ConfirmInterrupted, S::Interrupting) => S::Interrupted,
            (Self::ConfirmInterruptedTurnOver, S::Interrupting) => S::Idle,
            (Self::RequestPause, S::Running) => S::Pausing,
            (Self::ConfirmPaused, S::Pausing) => S::Paused,
            (Self::RequestResume, S::Paused) => S::Resuming,
            (Self::ConfirmResumed, S::Resuming) => S::Running,
            (Self::AbandonResume, S::Resuming) => S::Paused,
            (
                Self::RequestCancel,
                S::Queued
                | S::Running
                | S::Interrupted
                | S::Paused
                | S::WaitingForInput
                | S::WaitingForApproval
                | S::Idle,
            ) => S::Cancelling,
            (Self::ConfirmCancelled, S::Cancelling | S::Queued) => S::Cancelled,

            (Self::RecordContextExhausted | Self::RecordVoluntaryHandoff, S::Running) => S::ContextExhausted,
            (Self::RecordContextNearingLimit, S::Running) => S::Running,

            (Self::RecordUserQuestionAsked, S::Running | S::WaitingForInput) => S::WaitingForInput,
            (Self::RecordUserQuestionAsked, S::WaitingForApproval) => S::WaitingForApproval,
            (Self::RecordPlanPendingApproval, S::Running | S::WaitingForApproval) => S::WaitingForApproval,
            (Self::RecordPlanPendingApproval, S::WaitingForInput) => S::WaitingForInput,
            (Self::RecordPlanAutoApproved, S::Running) => S::Running,
            (
                Self::RecordUserQuestionAnswered
                | Self::RecordPlanApproved
                | Self::RecordPlanRejected
                | Self::CloseRequest,
                S::WaitingForInput | S::WaitingForApproval,
            ) => S::Running,
            // From Running: the sidecar never had the answer, and its process was stopped (ruling 12).
            (Self::AnswerHibernated, S::WaitingForInput | S::WaitingForApproval | S::Running) => S::Idle,

            (
                Self::EnableSkill | Self::DisableSkill | Self::RequestReload | Self::RequestFork,
                S::Idle | S::Interrupted,
            ) => from,
            (Self::RequestCompact, S::Running | S::Idle | S::Interrupted) => from,

            (Self::ApproveOutput | Self::Close, S::Idle) => S::Completed,
            (Self::RejectOutput, S::Idle) => S::Failed,
            (
                Self::RecordFailure,
                S::Running
                | S::Paused
                | S::Interrupting
                | S::Interrupted
                | S::Pausing
                | S::Resuming
                | S::Queued
                | S::WaitingForInput
                | S::WaitingForApproval,
            ) => S::Failed,
            (
                Self::FailLaunch,
                S::Queued
                | S::Idle
                | S::Interrupted
                | S::Paused
                | S::Resuming
                | S::WaitingForInput
                | S::WaitingForApproval,
            ) => S::Failed,
            (Self::Retry, S::Failed) => S::Queued,

            // Facts count in every status (ruling 17).
            (
                Self::RecordPlanCreated
                | Self::UpdateSessionTaskList
                | Self::UpdateMetrics
                | Self::RecordQuotaExceeded
                | Self::RecordDeliverables
                | Self::ConfirmReloaded,
                _,
            ) => from,
            // A failed session may be retried with what is chosen now.
            (
                Self::ChangeBudget | Self::RequestAdjustment,
                S::Cancelled | S::Completed | S::ContextExhausted,
            ) => return None,
            (Self::ChangeBudget | Self::RequestAdjustment, _) => from,
            (Self::AcceptMessage, _) if !from.is_terminal() => from,
            (
                Self::Hibernate | Self::Wake,
                S::Idle | S::Interrupted | S::Paused | S::WaitingForInput | S::WaitingForApproval,
            ) => from,
            _ => return None,
        };
        Some(to)
    }
}
