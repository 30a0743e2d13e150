//! Notifications: which events the owner is notified of (S0 8.10).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AgentSessionId, SessionEvent, Timestamp};

/// Kind of a notification, in kebab-case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// The output was approved and the session is completed.
    SessionCompleted,
    SessionFailed,
    /// An output waits for approval.
    OutputReady,
    /// The agent asked a question.
    WaitingForInput,
    /// A plan waits for approval.
    WaitingForApproval,
    /// Spending crossed the warning threshold of a budget, or of the spending cap of a project.
    BudgetWarning,
    /// A budget is used up, or the spending cap of a project is reached.
    BudgetExhausted,
    /// The agent reports no usable cost, so that the cap cannot be enforced (decision 32).
    SpendUnmetered,
    /// The agent's subscription quota is used up (decision 39).
    QuotaExceeded,
    /// The model of the agent does not answer.
    ModelUnavailable,
    /// A disk is full and the session waits for space.
    DiskFull,
    /// The context window is full and the agent does not continue.
    ContextExhausted,
    /// The agent acted although it had been stopped (decision 15).
    AfterStopActivity,
    /// Events of the agent were lost (decision 9).
    EventsLost,
    /// The agent takes longer than expected to carry out a command (decision 12).
    RunLate,
    /// Auto-continue stopped before the criteria were met.
    AutoContinueStopped,
    ChainCompleted,
    /// A schedule was due, but no session was started.
    ScheduleSkipped,
    /// A webhook was disabled because its deliveries kept failing.
    WebhookDisabled,
}

/// A notification for an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Position in the owner's event feed. Numbers of notifications have gaps, as not every event notifies.
    pub sequence: u64,
    pub kind: NotificationKind,
    /// Text for a person.
    pub text: String,
    /// The session that the notification concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// When the event happened.
    pub at: Timestamp,
    /// When the owner read the notification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
}

impl NotificationKind {
    /// What a browser receives unless its owner chooses otherwise: what waits for a person, and what ended.
    pub const PUSHED_BY_DEFAULT: [Self; 13] = [
        Self::SessionCompleted,
        Self::SessionFailed,
        Self::OutputReady,
        Self::WaitingForInput,
        Self::WaitingForApproval,
        Self::BudgetExhausted,
        Self::SpendUnmetered,
        Self::QuotaExceeded,
        Self::DiskFull,
        Self::ContextExhausted,
        Self::AfterStopActivity,
        Self::AutoContinueStopped,
        Self::ChainCompleted,
    ];

    /// Whether the work of an agent waits for a person.
    pub const fn waits_for_a_person(self) -> bool {
        matches!(
            self,
            Self::OutputReady
                | Self::WaitingForInput
                | Self::WaitingForApproval
                | Self::BudgetExhausted
                | Self::SpendUnmetered
                | Self::ContextExhausted
        )
    }

    /// The kind of the notification for an event of a session, if the owner is notified of it (S0 8.10).
    pub(super) const fn of_session(event: &SessionEvent) -> Option<Self> {
        use SessionEvent as E;
        Some(match event {
            E::Approved { .. } => Self::SessionCompleted,
            E::Failed { .. } => Self::SessionFailed,
            E::OutputReady { .. } => Self::OutputReady,
            E::WaitingForInput { .. } => Self::WaitingForInput,
            E::PlanPendingApproval { requires_approval: true, .. } => Self::WaitingForApproval,
            E::BudgetWarning { .. } => Self::BudgetWarning,
            E::BudgetExhausted { .. } => Self::BudgetExhausted,
            E::SpendUnmetered { .. } => Self::SpendUnmetered,
            E::QuotaExceeded { .. } => Self::QuotaExceeded,
            E::ModelUnavailable { .. } => Self::ModelUnavailable,
            E::DiskFull { .. } => Self::DiskFull,
            E::ContextExhausted { .. } | E::VoluntaryHandoff { .. } => Self::ContextExhausted,
            E::AfterStopActivity { .. } => Self::AfterStopActivity,
            E::EventsLost { .. } => Self::EventsLost,
            E::AutoContinueStopped { .. } => Self::AutoContinueStopped,
            E::CommandLate { .. } => Self::RunLate,
            _ => return None,
        })
    }
}
