//! Lines of the activity stream: the text for each event.

use pilothouse_api::decisions::trip_in_words;
use pilothouse_domain::brake::BrakeBehavior;
use pilothouse_domain::output_schema::OutputViolation;
use pilothouse_domain::session::WorkStop;
use pilothouse_domain::text::cut;
use pilothouse_domain::value::{
    ActivityItem, ActivityItemType as T, Adjustment, AgentConversations, AutoContinueEnd, ConversationTarget,
    CycleDirection, Disk, SessionOutcome,
};
use pilothouse_domain::{SessionEvent, StopMode, Timestamp, Usd};

/// `None` for events whose cause, an event of the agent, already has a line.
#[allow(clippy::too_many_lines)] // one line per event, in one table
pub fn activity_of(event: &SessionEvent, at: Timestamp) -> Option<ActivityItem> {
    use SessionEvent as E;
    let (kind, summary) = match event {
        E::Created { objective, .. } => (T::StatusChange, format!("Created: {objective}")),
        E::Started { .. } => (T::StatusChange, "Running: the agent started".to_owned()),
        E::TurnStarted { .. } => (T::StatusChange, "Running: a turn began".to_owned()),
        E::TurnCompleted { turn_count, outcome, .. } => {
            (T::StatusChange, format!("Idle: turn {turn_count} is over{}", outcome_text(*outcome)))
        }
        E::InterruptRequested { .. } => (T::StatusChange, "Interrupting".to_owned()),
        E::Interrupted {} => (T::StatusChange, "Interrupted".to_owned()),
        E::PauseRequested { command: None } => {
            (T::StatusChange, "Pausing: the process of the agent is ended".to_owned())
        }
        E::PauseRequested { .. } => (T::StatusChange, "Pausing".to_owned()),
        E::Paused {} => (T::StatusChange, "Paused".to_owned()),
        E::ResumeRequested { .. } => (T::StatusChange, "Resuming".to_owned()),
        E::Resumed {} => (T::StatusChange, "Running: resumed".to_owned()),
        E::ResumeAbandoned {} => (T::StatusChange, "Paused: the agent did not resume".to_owned()),
        E::CancelRequested { .. } => (T::StatusChange, "Cancelling".to_owned()),
        E::CancelAccepted {} => (T::Notice, "Cancels as soon as the earlier request is done".to_owned()),
        E::Cancelled {} => (T::StatusChange, "Cancelled".to_owned()),
        E::OutputReady { files_changed, tests_added, all_tests_passing, .. } => (
            T::StatusChange,
            format!(
                "Idle: output to review ({files_changed} files changed, {tests_added} tests added, tests {})",
                if *all_tests_passing { "pass" } else { "do not all pass" }
            ),
        ),
        E::OutputReturned { violations, corrections_left } => {
            (T::Notice, output_returned(violations, *corrections_left))
        }
        E::GuardrailTripped { subject, guardrail } => {
            let why = guardrail.description.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let predicate = trip_in_words(*subject, guardrail.action);
            (T::Notice, format!("The guardrail \"{}\" {predicate}{why}", guardrail.name))
        }
        E::Approved { .. } => (T::StatusChange, "Completed: output approved".to_owned()),
        E::Closed {} => (T::StatusChange, "Completed: closed".to_owned()),
        E::Rejected { reason, .. } => (
            T::Notice,
            reason.as_ref().map_or("Output rejected".to_owned(), |r| format!("Output rejected: {r}")),
        ),
        E::Failed { failure_reason, message } => (
            T::StatusChange,
            message
                .as_ref()
                .map_or(format!("Failed: {failure_reason}"), |m| format!("Failed: {failure_reason}: {m}")),
        ),
        E::Retried { retry_count, .. } => (T::StatusChange, format!("Queued: retry {retry_count}")),
        E::ValidationRequested { .. } => {
            (T::StatusChange, "Running: the turn ended and is being validated".to_owned())
        }
        E::ValidationPassed {} => (T::Notice, "Validation passed".to_owned()),
        E::ValidationFailed { reason, continuation, max_continuations } => (
            T::Notice,
            format!("Validation failed, continuing ({continuation} of {max_continuations}): {reason}"),
        ),
        E::ValidationAbandoned { reason } => (T::Notice, format!("Validation given up: {reason}")),
        E::AutoContinueStopped { cause, reason, continuations } => {
            (T::Notice, auto_continue_stopped(*cause, reason.as_deref(), *continuations))
        }
        E::AnswerReturned { .. } => {
            (T::Notice, "The sidecar never received the answer; it is sent as a message".to_owned())
        }
        E::HibernationOrdered { idle_seconds } => {
            (T::Notice, format!("Hibernates after {idle_seconds} seconds without activity"))
        }
        E::Held { behavior, .. } => (T::Notice, held(*behavior).to_owned()),
        E::HoldEscalated {} => {
            (T::Notice, "The agent did not stop for the brake in time; its process is being ended".to_owned())
        }
        E::HoldReleased { .. } => (T::Notice, "The emergency brake is released".to_owned()),
        E::ProcessRestartRequested { .. } => {
            (T::Notice, "Restarts its process under the new control mode".to_owned())
        }
        E::HoldKept {} => (T::Notice, "Stays paused when the emergency brake is released".to_owned()),
        E::StartBraked { .. } => (T::Notice, "Waits until the emergency brake is released".to_owned()),
        E::BudgetWarning { spent_usd, cap_usd, percent_used } => {
            (T::Notice, format!("{percent_used}% of the budget is spent: {spent_usd} of {cap_usd} dollars"))
        }
        E::BudgetExhausted { spent_usd, cap_usd, needed_usd, left_usd } => {
            (T::Notice, budget_exhausted(*spent_usd, *cap_usd, *needed_usd, *left_usd))
        }
        E::QuotaExceeded { message, reset_at } => (T::Notice, quota_exceeded(message.as_deref(), *reset_at)),
        E::ModelUnavailable { message, retry_at } => {
            (T::Notice, model_unavailable(message.as_deref(), *retry_at))
        }
        E::QuotaReset {} => (T::Notice, "The quota can be used again".to_owned()),
        E::DiskFull { disk } => (T::Notice, disk_full(*disk).to_owned()),
        E::DiskFreed { .. } => (T::Notice, "There is space on the disk again".to_owned()),
        E::AdjustmentRequested { adjustment, command } => {
            let when = if command.is_some() { "" } else { " (no agent is running)" };
            (T::Notice, format!("Asked: {}{when}", adjusted(adjustment)))
        }
        E::Adjusted { adjustment } => (T::Notice, format!("Done: {}", adjusted(adjustment))),
        E::AdjustmentAbandoned { adjustment, reason } => {
            (T::Notice, format!("Not done: {}: {reason}", adjusted(adjustment)))
        }
        E::AgentSettingsChanged { model_id, thinking_level } => {
            let level =
                thinking_level.map(|level| format!(", thinking: {}", level.name())).unwrap_or_default();
            (T::Notice, format!("The agent uses {model_id}{level}"))
        }
        E::AllowanceChanged { allowance_usd, .. } => {
            (T::Notice, format!("The run may spend {allowance_usd} dollars in total"))
        }
        E::DeliverablesChanged { pending, passed, blocked } => {
            let total = pending.saturating_add(*passed).saturating_add(*blocked);
            (T::TodoUpdate, format!("{passed} of {total} deliverables are passed, {blocked} are blocked"))
        }
        E::BudgetChanged { cap_usd, allow_unmetered } => {
            let unmetered = match allow_unmetered {
                Some(true) => "; spend that is not reported is allowed",
                Some(false) => "; spend that is not reported is not allowed",
                None => "",
            };
            (T::Notice, format!("The cap is {cap_usd} dollars now{unmetered}"))
        }
        E::SpendUnmetered { allowed } => (T::Notice, spend_unmetered(*allowed)),
        E::ContextNearingLimit { usage_percent, .. } => {
            (T::Notice, format!("The context window is {usage_percent}% full"))
        }
        E::ContextExhausted { .. } => {
            (T::StatusChange, "ContextExhausted: the context window is full".to_owned())
        }
        E::VoluntaryHandoff { reason, .. } => {
            (T::HandoffInitiated, format!("The agent hands over: {reason}"))
        }
        E::HandoffDocumentRecorded { .. } => {
            (T::HandoffInitiated, "The handoff document is recorded".to_owned())
        }
        E::WorkHandedOn { continuation, message_ids, .. } => (
            T::HandoffInitiated,
            format!("Session {continuation} continues the work{}", message_count_text(message_ids.len())),
        ),
        E::WorkStopped { reason, .. } => {
            let why = match reason {
                WorkStop::ChainFull => "the chain is full, so you decide",
                WorkStop::ChainKept => "the chain is full and stays as it is",
                WorkStop::ChainEnded => "the chain ended",
                WorkStop::Killed => "you ended the agent",
            };
            (T::StatusChange, format!("No session continues the work: {why}"))
        }
        E::WorkTakenUp { from_session_id, position, message_ids, .. } => (
            T::HandoffInitiated,
            format!(
                "Continues the work of session {from_session_id}, as number {position} of its chain{}",
                message_count_text(message_ids.len())
            ),
        ),
        E::ChainSpendCounted { carried_usd } => {
            (T::Notice, format!("The sessions before this one spent {carried_usd} dollars"))
        }
        E::WaitingForInput { questions, .. } => {
            (T::UserQuestion, questions.first().map_or("The agent asks".to_owned(), |q| q.question.clone()))
        }
        E::InputReceived { answers, by_default, .. } => {
            let answers: Vec<_> = answers.iter().map(|a| a.answer.as_str()).collect();
            let who = if *by_default { "No answer in time; default answer: " } else { "" };
            (T::UserAnswer, format!("{who}{}", answers.join(", ")))
        }
        E::RequestTimedOut { timeout, .. } => {
            (T::Notice, format!("A decision timed out: {}", timeout.effect))
        }
        E::GrantUsed { tool, .. } => (T::Notice, format!("The agent repeats an approved call of {tool}")),
        E::RequestDenied { .. } => {
            (T::Notice, "A request of the agent was denied: too many are open".to_owned())
        }
        E::PlanCreated {} => (T::PlanModeEnter, "The agent plans".to_owned()),
        E::PlanPendingApproval { requires_approval, version, .. } => (
            T::PlanModeExit,
            format!("Plan {version} {}", if *requires_approval { "waits for approval" } else { "is shown" }),
        ),
        E::PlanApproved { .. } => (T::UserAnswer, "Plan approved".to_owned()),
        E::PlanRejected { feedback, .. } => (T::UserAnswer, format!("Plan rejected: {feedback}")),
        E::TaskListUpdated { task_count, completed_count } => {
            (T::TodoUpdate, format!("{completed_count} of {task_count} tasks are done"))
        }
        E::MessageEnqueued { content, images, source, priority, .. } => {
            (T::Message, format!("{source} ({priority}): {content}{}", image_count_text(images.len())))
        }
        E::MessageUncertain { .. } => (T::Notice, "The delivery of a message is uncertain".to_owned()),
        E::MessageReturned { reason, .. } => (T::Notice, format!("A message is pending again: {reason}")),
        E::MessageCancelled { reason: Some(reason), .. } => {
            (T::Notice, format!("A message was cancelled: {reason}"))
        }
        E::MessagesHeld {} => {
            (T::Notice, "Messages are held until you send, promote or release one".to_owned())
        }
        E::RunStopOrdered { mode: StopMode::Kill, .. } => {
            (T::Notice, "The sidecar's process is being stopped".to_owned())
        }
        E::RunUnreachable { .. } => {
            (T::Notice, "The sidecar is unreachable: nothing was received from it for too long".to_owned())
        }
        E::RunReachable { after_seconds, .. } => {
            (T::Notice, format!("The sidecar is reachable again after {after_seconds} seconds"))
        }
        E::RunEnded { detail, end_uncertain: true, .. } => (
            T::Notice,
            format!(
                "The run ended, but the end of its process was not observed: {}",
                detail.as_deref().unwrap_or("its machine was declared lost")
            ),
        ),
        E::RunEnded { detail, .. } => (
            T::Notice,
            detail.as_ref().map_or("The sidecar's process is gone".to_owned(), |d| {
                format!("The sidecar's process is gone: {d}")
            }),
        ),
        E::CommandReissued { kind, command } if command.attempt > 1 => {
            (T::Notice, format!("{kind} was not acknowledged and is sent once more"))
        }
        E::CommandLate { kind } => (T::Notice, format!("{kind} takes longer than expected")),
        E::CommandRefused { message, .. } => (T::Notice, format!("The sidecar refused: {message}")),
        E::CapabilityMissing { consequence, .. } => (T::Notice, consequence.clone()),
        E::AfterStopActivity { what } => {
            (T::Notice, format!("The agent acted after it had been stopped: {what}"))
        }
        E::EventsLost { from_sequence, to_sequence } => {
            (T::Notice, format!("Events {from_sequence} to {to_sequence} are lost"))
        }
        E::FactIgnored { fact, reason } => {
            (T::Notice, format!("{fact} was deferred and then changed nothing: {reason}"))
        }
        E::EventQuarantined { errors } => {
            (T::Notice, format!("An event could not be read: {}", errors.join("; ")))
        }
        E::EventRedriven { sequence } => (
            T::Notice,
            format!("Event {sequence}, which had been quarantined, was sent again and applied late"),
        ),
        E::PoolExhausted { current_count, max_count } => {
            (T::Notice, format!("Waits for a slot: {current_count} of {max_count} are in use"))
        }
        E::EventClassified { classified_as, .. } => {
            (T::Notice, format!("Started for an event classified as {classified_as}"))
        }
        E::SkillEnabled { skill_id } => (T::SkillEnabled, format!("Skill {skill_id} is enabled")),
        E::SkillDisabled { skill_id } => (T::Notice, format!("Skill {skill_id} is disabled")),
        E::ReloadRequested { .. } => (T::Notice, "A reload of the configuration was requested".to_owned()),
        E::Reloaded {} => (T::Notice, "The new configuration is active".to_owned()),
        E::MemoryPillRecorded { skill_id, category, .. } => {
            (T::Notice, format!("The agent recorded a memory pill ({category}) for skill {skill_id}"))
        }
        E::SkillConsolidationProposed { pill_count, .. } => {
            (T::Notice, format!("The agent proposes new instructions that contain {pill_count} memory pills"))
        }
        E::DecisionLogged { content } => (T::Message, format!("Decision: {content}")),
        E::MetricsUpdated { total_cost_usd, context_window_usage_percent, turn_count } => {
            return Some(metrics(*total_cost_usd, context_window_usage_percent.as_deref(), *turn_count, at));
        }
        _ => return None,
    };
    Some(ActivityItem::new(kind, &summary, at).with_detail(if summary.chars().count() > 200 {
        &summary
    } else {
        ""
    }))
}

/// The figures of the whole session after a report of usage. `context_percent` is absent if the agent does not report its context
/// window.
fn metrics(cost: Usd, context_percent: Option<&str>, turn_count: u32, at: Timestamp) -> ActivityItem {
    let full = context_percent.map(|percent| format!("{percent}% full"));
    let context = full.as_ref().map(|full| format!(", context {full}")).unwrap_or_default();
    let window = full.as_deref().unwrap_or("unknown");
    let detail = format!("Cost: {cost} dollars\nContext window: {window}\nCompleted turns: {turn_count}");
    ActivityItem::new(T::MetricsUpdate, &format!("{cost} dollars so far{context}"), at).with_detail(&detail)
}

fn output_returned(violations: &[OutputViolation], corrections_left: u8) -> String {
    let first = violations.first().map(|first| format!(": {} {}", first.place(), first.message));
    let more = match violations.len() {
        0 | 1 => String::new(),
        all => format!(", and {} more", all - 1),
    };
    format!(
        "The output is returned to the agent ({corrections_left} more corrections){}{more}",
        first.unwrap_or_default()
    )
}

fn auto_continue_stopped(cause: AutoContinueEnd, reason: Option<&str>, continuations: u32) -> String {
    let why = match cause {
        AutoContinueEnd::MaxContinuations => format!("it continued {continuations} times already"),
        AutoContinueEnd::BudgetExhausted => "the budget is spent".to_owned(),
        AutoContinueEnd::ValidationUnavailable => "its criteria could not be checked".to_owned(),
        AutoContinueEnd::NotDelivered => "the message to continue did not reach the agent".to_owned(),
    };
    let what = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("Auto-continue stopped: {why}{what}")
}

const fn held(behavior: BrakeBehavior) -> &'static str {
    match behavior {
        BrakeBehavior::Pause => "An emergency brake stops the session",
        BrakeBehavior::Kill => "An emergency brake ends the process of the session",
    }
}

/// Explains that the agent's spend is unknown.
pub(super) fn spend_unmetered(allowed: bool) -> String {
    let then = if allowed {
        "its owner allows that"
    } else {
        "the session is held until its owner allows that (`allowUnmetered`)"
    };
    format!(
        "The agent reports neither its cost nor tokens of a model whose price is known. Its cap cannot be enforced; {then}"
    )
}

/// Suffix for a turn that did not end normally.
const fn outcome_text(outcome: SessionOutcome) -> &'static str {
    match outcome {
        SessionOutcome::Completed => "",
        SessionOutcome::MaxIterations => ", at the limit of its iterations",
        SessionOutcome::ExecutionError => ", in an error",
        SessionOutcome::BudgetExceeded => ", at the limit of its costs",
        SessionOutcome::QuotaExceeded => ", because its quota is used up",
    }
}

/// Why no more may be spent, as a sentence without a full stop.
pub(super) fn budget_exhausted(spent: Usd, cap: Usd, needed: Option<Usd>, left: Option<Usd>) -> String {
    match needed {
        Some(needed) => {
            let left = left.unwrap_or_else(|| cap.excess_over(spent));
            format!("The next model call may cost {needed} dollars, but only {left} of {cap} are left")
        }
        None => format!("The budget is spent: {spent} of {cap} dollars"),
    }
}

/// Explains a full disk, as a sentence without a full stop.
pub(super) const fn disk_full(disk: Disk) -> &'static str {
    match disk {
        Disk::Server => "The disk of the server is nearly full; the session is resumed when there is space",
        Disk::Worker => "The disk of the worker is full; the agent waits until there is space",
    }
}

pub(super) fn model_unavailable(message: Option<&str>, retry_at: Option<Timestamp>) -> String {
    let why = in_brackets(message);
    match retry_at {
        Some(at) => format!("The model does not answer{why}; the session resumes at {at}"),
        None => format!("The model does not answer{why}; resume the session when the provider is available"),
    }
}

fn in_brackets(message: Option<&str>) -> String {
    message.map(|message| format!(" ({})", message.trim_end_matches('.'))).unwrap_or_default()
}

pub(super) fn quota_exceeded(message: Option<&str>, reset_at: Option<Timestamp>) -> String {
    let why = in_brackets(message);
    match reset_at {
        Some(at) => format!("The quota of the agent is used up{why}; the session resumes at {at}"),
        None => format!("The quota of the agent is used up{why}; resume the session when it resets"),
    }
}

fn adjusted(adjustment: &Adjustment) -> String {
    match adjustment {
        Adjustment::SetModel { model_id } => format!("use the model {model_id}"),
        Adjustment::CycleModel { direction: CycleDirection::Forward } => "use the next model".to_owned(),
        Adjustment::CycleModel { direction: CycleDirection::Backward } => "use the previous model".to_owned(),
        Adjustment::SetThinkingLevel { level } => format!("set thinking to {}", level.name()),
        Adjustment::Compact { .. } => "summarise the conversation".to_owned(),
        Adjustment::Fork { before_turn_id } => format!("rewind to before turn {before_turn_id}"),
        Adjustment::NewConversation {} => "begin a new conversation".to_owned(),
        Adjustment::SwitchConversation { target: ConversationTarget::ConversationId(id) } => {
            format!("switch to the conversation {}", cut(id, AgentConversations::MAX_TEXT))
        }
        Adjustment::SwitchConversation { target: ConversationTarget::TurnId(turn) } => {
            format!("switch to after turn {turn}")
        }
        Adjustment::LabelTurn { turn_id, label } => {
            let turn =
                turn_id.as_ref().map_or_else(|| "the latest turn".to_owned(), |id| format!("turn {id}"));
            match label {
                Some(label) => format!("label {turn} as \"{label}\""),
                None => format!("remove the label of {turn}"),
            }
        }
        Adjustment::SetAllowance { .. } => "spend within the current cap".to_owned(),
    }
}

/// Suffix for a message with images.
fn image_count_text(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => " [1 image]".to_owned(),
        n => format!(" [{n} images]"),
    }
}

fn message_count_text(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", and received the waiting message".to_owned(),
        n => format!(", and received the {n} waiting messages"),
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_domain::CommandRef;
    use pilothouse_domain::session::LifecycleCommand;

    use super::*;

    #[test]
    fn planning_and_handing_over_have_lines_of_their_own_types() {
        for (event, kind) in [
            (SessionEvent::ContextExhausted { chain_id: None }, T::StatusChange),
            (SessionEvent::PlanCreated {}, T::PlanModeEnter),
            (
                SessionEvent::VoluntaryHandoff { reason: "full".to_owned(), chain_id: None },
                T::HandoffInitiated,
            ),
            (SessionEvent::HandoffDocumentRecorded { handoff_document_id: None }, T::HandoffInitiated),
        ] {
            let line = activity_of(&event, Timestamp::from_millis(0));
            assert_eq!(line.map(|line| line.kind), Some(kind));
        }
    }

    #[test]
    fn refusals_settings_and_limits_have_notices() {
        let amount = |text: &str| text.parse::<Usd>().unwrap();
        for (event, summary) in [
            (
                SessionEvent::CommandRefused {
                    command_id: "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap(),
                    code: "no-agent".to_owned(),
                    message: "there is none".to_owned(),
                },
                "The sidecar refused: there is none",
            ),
            (
                SessionEvent::AgentSettingsChanged { model_id: "large".to_owned(), thinking_level: None },
                "The agent uses large",
            ),
            (
                SessionEvent::BudgetExhausted {
                    spent_usd: amount("0.07"),
                    cap_usd: amount("0.1"),
                    needed_usd: Some(amount("0.05")),
                    left_usd: Some(amount("0.03")),
                },
                "The next model call may cost 0.05 dollars, but only 0.03 of 0.1 are left",
            ),
            (
                SessionEvent::QuotaExceeded { message: Some("Used up.".to_owned()), reset_at: None },
                "The quota of the agent is used up (Used up); resume the session when it resets",
            ),
            (
                SessionEvent::ModelUnavailable { message: None, retry_at: None },
                "The model does not answer; resume the session when the provider is available",
            ),
        ] {
            let line = activity_of(&event, Timestamp::from_millis(0)).map(|line| (line.kind, line.summary));
            assert_eq!(line, Some((T::Notice, summary.to_owned())));
        }
    }

    /// The web console recognises these notices by their sentences (`console/src/screens/control.ts`).
    #[test]
    fn notices_about_late_commands_keep_their_sentences() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let command = CommandRef { command_id: id.parse().unwrap(), run_id: id.parse().unwrap(), attempt: 2 };
        let kind = LifecycleCommand::Pause;
        for (event, part) in [
            (SessionEvent::CommandLate { kind }, "takes longer than expected"),
            (SessionEvent::CommandReissued { kind, command }, "was not acknowledged"),
            (SessionEvent::RunStopOrdered { command, mode: StopMode::Kill }, "process is being stopped"),
            (SessionEvent::HoldEscalated {}, "process is being ended"),
        ] {
            let line = activity_of(&event, Timestamp::from_millis(0)).unwrap();
            assert_eq!(line.kind, T::Notice);
            assert!(line.summary.contains(part), "{}", line.summary);
        }
    }

    #[test]
    fn usage_has_a_line_with_the_figures_of_the_session() {
        let line = |percent: Option<&str>| {
            let event = SessionEvent::MetricsUpdated {
                total_cost_usd: Usd::ZERO,
                context_window_usage_percent: percent.map(str::to_owned),
                turn_count: 3,
            };
            activity_of(&event, Timestamp::from_millis(0)).map(|line| (line.kind, line.summary, line.detail))
        };
        let expected = |summary: &str, detail: &str| {
            Some((T::MetricsUpdate, summary.to_owned(), Some(detail.to_owned())))
        };
        assert_eq!(
            line(Some("12.5")),
            expected(
                "0 dollars so far, context 12.5% full",
                "Cost: 0 dollars\nContext window: 12.5% full\nCompleted turns: 3"
            )
        );
        assert_eq!(
            line(None),
            expected("0 dollars so far", "Cost: 0 dollars\nContext window: unknown\nCompleted turns: 3")
        );
    }
}
