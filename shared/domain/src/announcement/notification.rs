//! Notifications: which events the owner is notified of, and with which text (S0 8.10).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::journal::{budget_exhausted, disk_full, quota_exceeded, spend_unmetered};
use crate::template::ScheduleSkip;
use crate::{AgentSessionId, DomainEvent, Timestamp};

/// Kind of a notification, in kebab-case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// The output was approved and the session is completed.
    SessionCompleted,
    /// The session failed.
    SessionFailed,
    /// An output waits for approval.
    OutputReady,
    /// The agent asked a question.
    WaitingForInput,
    /// A plan waits for approval.
    WaitingForApproval,
    /// Spending crossed the warning threshold of the budget.
    BudgetWarning,
    /// The budget is used up.
    BudgetExhausted,
    /// The agent reports no usable cost, so that the cap cannot be enforced (decision 32).
    SpendUnmetered,
    /// The agent's subscription quota is used up (decision 39).
    QuotaExceeded,
    /// A disk is full and the session waits for space.
    DiskFull,
    /// The context window is full.
    ContextExhausted,
    /// The agent acted although it had been stopped (decision 15).
    AfterStopActivity,
    /// Events of the agent were lost (decision 9).
    EventsLost,
    /// A pause or resume takes longer than expected (decision 12).
    RunLate,
    /// Auto-continue stopped before the criteria were met.
    AutoContinueStopped,
    /// The chain is completed.
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
    /// Kind of the notification.
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

/// Kind and text of the notification for an event, if the owner is notified of it (S0 8.10).
pub fn notice(event: &DomainEvent) -> Option<(NotificationKind, String)> {
    use DomainEvent as E;
    use NotificationKind as K;
    Some(match event {
        E::Approved { .. } => {
            (K::SessionCompleted, "The output is approved and the session completed.".to_owned())
        }
        E::Failed { failure_reason, message } => (
            K::SessionFailed,
            message.as_ref().map_or_else(
                || format!("The session failed: {failure_reason}."),
                |message| format!("The session failed: {failure_reason}: {message}"),
            ),
        ),
        E::OutputReady { files_changed, tests_added, all_tests_passing, .. } => (
            K::OutputReady,
            format!(
                "Output waits for your review: {files_changed} files changed, {tests_added} tests added, tests {}.",
                if *all_tests_passing { "pass" } else { "do not all pass" }
            ),
        ),
        E::WaitingForInput { questions, .. } => (
            K::WaitingForInput,
            questions.first().map_or_else(|| "The agent asks.".to_owned(), |first| first.question.clone()),
        ),
        E::PlanPendingApproval { requires_approval: true, version, .. } => {
            (K::WaitingForApproval, format!("Plan {version} waits for your approval."))
        }
        E::BudgetWarning { spent_usd, cap_usd, percent_used } => (
            K::BudgetWarning,
            format!("{percent_used}% of the budget is spent: {spent_usd} of {cap_usd} dollars."),
        ),
        E::BudgetExhausted { spent_usd, cap_usd, needed_usd } => {
            (K::BudgetExhausted, format!("{}.", budget_exhausted(*spent_usd, *cap_usd, *needed_usd)))
        }
        E::SpendUnmetered { allowed } => (K::SpendUnmetered, format!("{}.", spend_unmetered(*allowed))),
        E::QuotaExceeded { message, reset_at } => {
            (K::QuotaExceeded, format!("{}.", quota_exceeded(message.as_deref(), *reset_at)))
        }
        E::DiskFull { disk } => (K::DiskFull, format!("{}.", disk_full(*disk))),
        E::ContextExhausted { .. } => (K::ContextExhausted, "The context window is full.".to_owned()),
        E::AfterStopActivity { what } => {
            (K::AfterStopActivity, format!("The agent acted after it had been stopped: {what}."))
        }
        E::EventsLost { from_sequence, to_sequence } => {
            (K::EventsLost, format!("Events {from_sequence} to {to_sequence} of the agent are lost."))
        }
        E::AutoContinueStopped { reason, continuations, .. } => (
            K::AutoContinueStopped,
            format!(
                "Auto-continue stopped after {continuations} continuations: {}.",
                reason.as_deref().unwrap_or("its criteria are not met").trim_end_matches('.')
            ),
        ),
        E::ChainCompleted { total_sessions, total_cost_usd, .. } => (
            K::ChainCompleted,
            format!("The chain is completed: {total_sessions} sessions, {total_cost_usd} dollars."),
        ),
        E::TemplateScheduleSkipped { scheduled_for, reason, .. } => (
            K::ScheduleSkipped,
            format!(
                "No session was started for {scheduled_for}: {}.",
                match reason {
                    ScheduleSkip::Deactivated => "the template is deactivated",
                    ScheduleSkip::PoolLineFull => "too many sessions wait for a slot",
                }
            ),
        ),
        E::CommandLate { kind } => (K::RunLate, format!("{kind} takes longer than expected.")),
        _ => return None,
    })
}
