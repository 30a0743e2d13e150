use pilothouse_domain::announcement::Publishable;
use pilothouse_domain::template::ScheduleSkip;
use pilothouse_domain::{
    ArtifactEvent, ChainEvent, CoherenceEvent, ProjectAccountEvent, ProjectAgentEvent, ProjectEvent,
    SessionEvent, SkillEvent, TemplateEvent,
};

use super::activity::{budget_exhausted, disk_full, model_unavailable, quota_exceeded, spend_unmetered};

pub trait NotificationText: Publishable {
    /// The text of the notification. For an event without a notification, it is the name of the event.
    fn notification_text(&self) -> String {
        self.name().to_owned()
    }
}

impl NotificationText for SkillEvent {}

impl NotificationText for ArtifactEvent {}

impl NotificationText for CoherenceEvent {}

impl NotificationText for ProjectEvent {}

impl NotificationText for ProjectAgentEvent {}

impl NotificationText for ProjectAccountEvent {
    fn notification_text(&self) -> String {
        match self {
            Self::Warning { project, drawn_usd, cap_usd } => {
                let percent = drawn_usd.percent_of(*cap_usd);
                format!(
                    "Project {project}: {percent}% of the spending cap is drawn: {drawn_usd} of {cap_usd} dollars."
                )
            }
            Self::Braked { project, cap_usd, .. } => format!(
                "Project {project} is stopped: its spending cap of {cap_usd} dollars is reached. Raise the cap, then release the brake."
            ),
            Self::CapChanged { .. }
            | Self::SliceDrawn { .. }
            | Self::SliceReturned { .. }
            | Self::ReviewsCounted { .. }
            | Self::SliceRefused { .. } => self.name().to_owned(),
        }
    }
}

impl NotificationText for SessionEvent {
    fn notification_text(&self) -> String {
        use SessionEvent as E;
        match self {
            E::Approved { .. } => "The output is approved and the session completed.".to_owned(),
            E::Failed { failure_reason, message } => message.as_ref().map_or_else(
                || format!("The session failed: {failure_reason}."),
                |message| format!("The session failed: {failure_reason}: {message}"),
            ),
            E::OutputReady { files_changed, tests_added, all_tests_passing, .. } => {
                format!(
                    "Output waits for your review: {files_changed} files changed, {tests_added} tests added, tests {}.",
                    if *all_tests_passing { "pass" } else { "do not all pass" }
                )
            }
            E::WaitingForInput { questions, .. } => {
                questions.first().map_or_else(|| "The agent asks.".to_owned(), |first| first.question.clone())
            }
            E::PlanPendingApproval { requires_approval: true, version, .. } => {
                format!("Plan {version} waits for your approval.")
            }
            E::BudgetWarning { spent_usd, cap_usd, percent_used } => {
                format!("{percent_used}% of the budget is spent: {spent_usd} of {cap_usd} dollars.")
            }
            E::BudgetExhausted { spent_usd, cap_usd, needed_usd, left_usd } => {
                format!("{}.", budget_exhausted(*spent_usd, *cap_usd, *needed_usd, *left_usd))
            }
            E::SpendUnmetered { allowed } => format!("{}.", spend_unmetered(*allowed)),
            E::QuotaExceeded { message, reset_at } => {
                format!("{}.", quota_exceeded(message.as_deref(), *reset_at))
            }
            E::ModelUnavailable { message, retry_at } => {
                format!("{}.", model_unavailable(message.as_deref(), *retry_at))
            }
            E::DiskFull { disk } => format!("{}.", disk_full(*disk)),
            E::ContextExhausted { .. } => "The context window is full.".to_owned(),
            E::VoluntaryHandoff { reason, .. } => {
                format!("The agent hands its work over: {}.", reason.trim_end_matches('.'))
            }
            E::AfterStopActivity { what } => {
                format!("The agent acted after it had been stopped: {what}.")
            }
            E::EventsLost { from_sequence, to_sequence } => {
                format!("Events {from_sequence} to {to_sequence} of the agent are lost.")
            }
            E::AutoContinueStopped { reason, continuations, .. } => {
                format!(
                    "Auto-continue stopped after {continuations} continuations: {}.",
                    reason.as_deref().unwrap_or("its criteria are not met").trim_end_matches('.')
                )
            }
            E::CommandLate { kind } => format!("{kind} takes longer than expected."),
            _ => self.name().to_owned(),
        }
    }
}

impl NotificationText for ChainEvent {
    fn notification_text(&self) -> String {
        match self {
            Self::Completed { total_sessions, total_cost_usd, .. } => {
                format!("The chain is completed: {total_sessions} sessions, {total_cost_usd} dollars.")
            }
            _ => self.name().to_owned(),
        }
    }
}

impl NotificationText for TemplateEvent {
    fn notification_text(&self) -> String {
        match self {
            Self::ScheduleSkipped { scheduled_for, reason, .. } => {
                format!(
                    "No session was started for {scheduled_for}: {}.",
                    match reason {
                        ScheduleSkip::Deactivated => "the template is deactivated",
                        ScheduleSkip::PoolLineFull => "too many sessions wait for a slot",
                        ScheduleSkip::ModelNotAllowed =>
                            "the operator of the server does not allow its model",
                        ScheduleSkip::NoAdapter =>
                            "the template names no adapter, and the server has no default; name one in the template",
                        ScheduleSkip::Unmetered =>
                            "the spend of its agent is unknown, so that its cap cannot be enforced; allow that in the template (`allowUnmetered`)",
                    }
                )
            }
            _ => self.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::session::LifecycleCommand;

    use super::*;

    #[test]
    fn owner_learns_which_command_is_late() {
        let late = SessionEvent::CommandLate { kind: LifecycleCommand::Adjust };
        assert_eq!(late.notification_text(), "Adjust takes longer than expected.");
    }
}
