//! The transition table of a session: which operation is valid in which status (S0 8.4, as amended by the decisions).

pub use super::session_status::AgentSessionStatus;

/// Operations on a session. Names follow the methods of S0 8.4; operations that S0 lacks cite a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// The sidecar is ready and the agent starts.
    Start,
    StartTurn,
    /// The turn ends without output.
    RecordTurnCompleted,
    /// The turn ends with output, or output arrives after its end (decision 18).
    RecordOutput,
    /// The owner ends the turn.
    RequestInterrupt,
    /// The sidecar acknowledged the interrupt.
    ConfirmInterrupted,
    /// The sidecar acknowledged the interrupt, but the turn had already ended (decision 17).
    ConfirmInterruptedTurnOver,
    /// The owner or the budget suspends the agent.
    RequestPause,
    /// The sidecar acknowledged the pause.
    ConfirmPaused,
    /// A brake stops the session (decision 72). An intermediate status resolves first.
    Hold,
    /// The owner resumes a paused agent.
    RequestResume,
    /// The sidecar acknowledged the resume.
    ConfirmResumed,
    /// The process was stopped before it resumed (decision 12).
    AbandonResume,
    RequestCancel,
    /// The sidecar acknowledged the stop, or no sidecar was running.
    ConfirmCancelled,
    RecordContextExhausted,
    /// The agent hands over before its context window is full.
    RecordVoluntaryHandoff,
    /// Context usage crossed the warning threshold.
    RecordContextNearingLimit,
    RecordUserQuestionAsked,
    RecordUserQuestionAnswered,
    /// The owner answers a session that has no process (decision 26).
    AnswerHibernated,
    /// The agent enters plan mode.
    RecordPlanCreated,
    /// The agent submits a plan that needs approval.
    RecordPlanPendingApproval,
    /// The agent submits a plan that needs no approval.
    RecordPlanAutoApproved,
    RecordPlanApproved,
    RecordPlanRejected,
    /// The result of the tool call behind a request arrives (decision 26).
    CloseRequest,
    /// The agent replaces its task list.
    UpdateSessionTaskList,
    /// The agent reports usage.
    UpdateMetrics,
    EnableSkill,
    DisableSkill,
    /// Send the current configuration to the sidecar.
    RequestReload,
    /// The sidecar acknowledged the reload.
    ConfirmReloaded,
    /// The owner changes the model or the thinking level.
    RequestAdjustment,
    /// The owner requests a summary of the conversation.
    RequestCompact,
    /// The owner rewinds the conversation to before a turn, begins or selects another conversation, or labels a turn.
    RequestFork,
    /// The agent's subscription quota is used up (decision 39).
    RecordQuotaExceeded,
    /// The state of the agent's deliverables changed (S4).
    RecordDeliverables,
    ApproveOutput,
    RejectOutput,
    Close,
    RecordFailure,
    /// No sidecar became ready (decision 12).
    FailLaunch,
    Retry,
    ChangeBudget,
    /// A message is added to the session's queue (decision 28).
    AcceptMessage,
    /// The process ends and the session keeps its status (decisions 14, 22).
    Hibernate,
    /// A new run starts for a hibernated session (decision 22).
    Wake,
}

crate::names::named!(Operation {
    Start => "Start",
    StartTurn => "StartTurn",
    RecordTurnCompleted => "RecordTurnCompleted",
    RecordOutput => "RecordOutput",
    RequestInterrupt => "RequestInterrupt",
    ConfirmInterrupted => "ConfirmInterrupted",
    ConfirmInterruptedTurnOver => "ConfirmInterruptedTurnOver",
    RequestPause => "RequestPause",
    ConfirmPaused => "ConfirmPaused",
    Hold => "Hold",
    RequestResume => "RequestResume",
    ConfirmResumed => "ConfirmResumed",
    AbandonResume => "AbandonResume",
    RequestCancel => "RequestCancel",
    ConfirmCancelled => "ConfirmCancelled",
    RecordContextExhausted => "RecordContextExhausted",
    RecordVoluntaryHandoff => "RecordVoluntaryHandoff",
    RecordContextNearingLimit => "RecordContextNearingLimit",
    RecordUserQuestionAsked => "RecordUserQuestionAsked",
    RecordUserQuestionAnswered => "RecordUserQuestionAnswered",
    AnswerHibernated => "AnswerHibernated",
    RecordPlanCreated => "RecordPlanCreated",
    RecordPlanPendingApproval => "RecordPlanPendingApproval",
    RecordPlanAutoApproved => "RecordPlanAutoApproved",
    RecordPlanApproved => "RecordPlanApproved",
    RecordPlanRejected => "RecordPlanRejected",
    CloseRequest => "CloseRequest",
    UpdateSessionTaskList => "UpdateSessionTaskList",
    UpdateMetrics => "UpdateMetrics",
    EnableSkill => "EnableSkill",
    DisableSkill => "DisableSkill",
    RequestReload => "RequestReload",
    ConfirmReloaded => "ConfirmReloaded",
    RequestAdjustment => "RequestAdjustment",
    RequestCompact => "RequestCompact",
    RequestFork => "RequestFork",
    RecordQuotaExceeded => "RecordQuotaExceeded",
    RecordDeliverables => "RecordDeliverables",
    ApproveOutput => "ApproveOutput",
    RejectOutput => "RejectOutput",
    Close => "Close",
    RecordFailure => "RecordFailure",
    FailLaunch => "FailLaunch",
    Retry => "Retry",
    ChangeBudget => "ChangeBudget",
    AcceptMessage => "AcceptMessage",
    Hibernate => "Hibernate",
    Wake => "Wake",
});

impl Operation {
    pub const ALL: [Self; 48] = [
        Self::Start,
        Self::StartTurn,
        Self::RecordTurnCompleted,
        Self::RecordOutput,
        Self::RequestInterrupt,
        Self::ConfirmInterrupted,
        Self::ConfirmInterruptedTurnOver,
        Self::RequestPause,
        Self::ConfirmPaused,
        Self::Hold,
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

    /// **The transition table.** Returns the status after `self` in status `from`, or `None` if the operation is not valid there.
    ///
    /// Answering, deciding and closing a request lead to `Running`. The aggregate stays in its waiting status while another request
    /// still blocks (decision 26).
    #[allow(clippy::match_same_arms)] // one line per operation, in the order of S0
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
            // Open requests stay open, and the resume returns to the waiting status.
            (Self::Hold, S::Running | S::WaitingForInput | S::WaitingForApproval) => S::Pausing,
            (Self::Hold, _) if !from.is_terminal() => from,
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
            // From Running: the sidecar never received the answer, and its process was stopped (decision 12).
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

            // Facts count in every status (decision 17).
            (
                Self::RecordPlanCreated
                | Self::UpdateSessionTaskList
                | Self::UpdateMetrics
                | Self::RecordQuotaExceeded
                | Self::RecordDeliverables
                | Self::ConfirmReloaded,
                _,
            ) => from,
            // A failed session can be retried with the values that are set now.
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
