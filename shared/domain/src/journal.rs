//! The journal: what every commit leaves behind (architecture: State).
//!
//! One entry is one item. It says what caused a change, the domain events that happened, and the lines that they add to
//! the activity stream; an agent's own event stands in it whole, so that messages, tool calls and logs are views of
//! the journal and nothing is written twice. Sequences count a session's entries from 1 without gaps; they are the
//! cursors of its live stream.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::session::{AgentSession, AgentSessionStatus};
use crate::value::{
    ActivityItem, ActivityItemType as T, Adjustment, AutoContinueEnd, CycleDirection, SessionOutcome,
};
use crate::{
    AgentSessionId, DomainEvent, EventId, Events, RunId, StopMode, Timestamp, TraceParent, Usd, UserId,
};

/// One entry of a session's journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// The entry's own id; reactions are idempotent by it.
    pub id: EventId,
    /// The session.
    pub session_id: AgentSessionId,
    /// Its owner.
    pub owner_id: UserId,
    /// Its place.
    pub sequence: u64,
    /// When it was committed.
    pub at: Timestamp,
    /// What caused it.
    pub cause: Cause,
    /// What happened.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Events,
    /// Where the session stands after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AgentSessionStatus>,
    /// What it adds to the activity stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub activity: Vec<ActivityItem>,
    /// Why an agent's event changed nothing (ruling 17), or what it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignored_reason: Option<String>,
    /// Where what caused it stands in a trace: what follows from it goes on from there.
    #[serde(default, deserialize_with = "TraceParent::lenient", skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<TraceParent>,
}

/// What caused an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum Cause {
    /// The owner, through the function that is named.
    Owner {
        /// The function.
        function: String,
    },
    /// The agent, through the agent API.
    AgentApi {
        /// The function.
        function: String,
        /// What it said, where that is kept.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        body: Value,
    },
    /// A raw event of a run.
    Agent {
        /// The run.
        run_id: RunId,
        /// The run's place among the session's runs.
        run: u32,
        /// Its sequence in the run; none for what the runtime says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sequence: Option<u64>,
        /// The event as it was sent; large texts are cut with `truncated`, and stand whole in a blob.
        body: Value,
    },
    /// A reaction to an earlier entry.
    Reaction {
        /// The function.
        function: String,
    },
    /// The clock.
    Clock,
}

impl JournalEntry {
    /// An entry for `events` at the session's next place. `activity` comes before the lines of the events.
    pub fn record(
        session: &mut AgentSession,
        id: EventId,
        at: Timestamp,
        cause: Cause,
        events: Events,
        mut activity: Vec<ActivityItem>,
    ) -> Self {
        session.updated_at = session.updated_at.max(at);
        activity.extend(events.iter().filter_map(|event| activity_of(event, at)));
        Self {
            id,
            session_id: session.id(),
            owner_id: session.owner_id().clone(),
            sequence: session.next_journal_sequence(),
            at,
            cause,
            events,
            status: Some(session.status()),
            activity,
            ignored_reason: None,
            traceparent: None,
        }
    }
}

fn auto_continue_stopped(cause: AutoContinueEnd, reason: Option<&str>, continuations: u32) -> String {
    let why = match cause {
        AutoContinueEnd::MaxContinuations => format!("it went on {continuations} times already"),
        AutoContinueEnd::BudgetExhausted => "the budget is spent".to_owned(),
        AutoContinueEnd::ValidationUnavailable => "its criteria could not be checked".to_owned(),
        AutoContinueEnd::NotDelivered => "the agent was not given the message to go on".to_owned(),
    };
    let what = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("Does not go on by itself: {why}{what}")
}

/// What is said of a turn that did not end normally.
const fn ended_how(outcome: SessionOutcome) -> &'static str {
    match outcome {
        SessionOutcome::Completed => "",
        SessionOutcome::MaxIterations => ", at the limit of its iterations",
        SessionOutcome::ExecutionError => ", in an error",
        SessionOutcome::BudgetExceeded => ", at the limit of its costs",
        SessionOutcome::QuotaExceeded => ", as the plan that pays for it is used up",
    }
}

/// Why nothing more is spent, in a sentence without its full stop.
pub(crate) fn budget_exhausted(spent: Usd, cap: Usd, needed: Option<Usd>) -> String {
    match needed {
        Some(needed) => {
            let left = cap.excess_over(spent);
            format!("The next model call may cost {needed} dollars, and {left} of {cap} are left")
        }
        None => format!("The budget is spent: {spent} of {cap} dollars"),
    }
}

/// That a plan is used up, and what follows, in a sentence without its full stop.
pub(crate) fn quota_exceeded(message: Option<&str>, reset_at: Option<Timestamp>) -> String {
    let why = message.map(|message| format!(" ({})", message.trim_end_matches('.'))).unwrap_or_default();
    match reset_at {
        Some(at) => format!("The quota of the agent is used up{why}; it goes on at {at}"),
        None => format!("The quota of the agent is used up{why}; resume it when it can go on"),
    }
}

fn adjusted(adjustment: &Adjustment) -> String {
    match adjustment {
        Adjustment::SetModel { model_id } => format!("work with the model {model_id}"),
        Adjustment::CycleModel { direction: CycleDirection::Forward } => "take the next model".to_owned(),
        Adjustment::CycleModel { direction: CycleDirection::Backward } => "take the model before".to_owned(),
        Adjustment::SetThinkingLevel { level } => format!("set thinking to {}", level.name()),
        Adjustment::Compact { .. } => "summarise the conversation".to_owned(),
        Adjustment::Fork { before_turn_id } => format!("go back to before turn {before_turn_id}"),
        Adjustment::SetAllowance { .. } => "spend within the cap of now".to_owned(),
    }
}

fn and_messages(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => ", and has the message that waited".to_owned(),
        n => format!(", and has the {n} messages that waited"),
    }
}

/// The line that an event adds to the activity stream. Those that an agent's own event stands for add none.
#[allow(clippy::too_many_lines)] // one line an event, on purpose in one table
pub fn activity_of(event: &DomainEvent, at: Timestamp) -> Option<ActivityItem> {
    use DomainEvent as E;
    let (kind, summary) = match event {
        E::SessionCreated { objective, .. } => (T::StatusChange, format!("Created: {objective}")),
        E::SessionStarted { .. } => (T::StatusChange, "Running: the agent begins".to_owned()),
        E::TurnStarted { .. } => (T::StatusChange, "Running: a turn began".to_owned()),
        E::TurnCompleted { turn_count, outcome, .. } => {
            (T::StatusChange, format!("Idle: turn {turn_count} is over{}", ended_how(*outcome)))
        }
        E::InterruptRequested { .. } => (T::StatusChange, "Interrupting".to_owned()),
        E::Interrupted {} => (T::StatusChange, "Interrupted".to_owned()),
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
        E::Approved { .. } => (T::StatusChange, "Completed: output approved".to_owned()),
        E::Closed {} => (T::StatusChange, "Completed: closed".to_owned()),
        E::Rejected { reason, .. } => (
            T::Notice,
            reason.as_ref().map_or("Output rejected".to_owned(), |r| format!("Output rejected: {r}")),
        ),
        E::Failed { failure_reason, message } => (
            T::StatusChange,
            message.as_ref().map_or(format!("Failed: {failure_reason:?}"), |m| {
                format!("Failed: {failure_reason:?}: {m}")
            }),
        ),
        E::Retried { retry_count, .. } => (T::StatusChange, format!("Queued: retry {retry_count}")),
        E::ValidationRequested { .. } => {
            (T::StatusChange, "Running: the turn is over and is validated".to_owned())
        }
        E::ValidationPassed {} => (T::Notice, "Validation passed".to_owned()),
        E::ValidationFailed { reason, continuation, max_continuations } => (
            T::Notice,
            format!("Validation failed, goes on ({continuation} of {max_continuations}): {reason}"),
        ),
        E::ValidationAbandoned { reason } => (T::Notice, format!("Validation given up: {reason}")),
        E::AutoContinueStopped { cause, reason, continuations } => {
            (T::Notice, auto_continue_stopped(*cause, reason.as_deref(), *continuations))
        }
        E::AnswerReturned { .. } => {
            (T::Notice, "The sidecar never had the answer; it goes as a message".to_owned())
        }
        E::HibernationOrdered { idle_seconds } => {
            (T::Notice, format!("Hibernates: nothing was heard for {idle_seconds} seconds"))
        }
        E::BudgetWarning { spent_usd, cap_usd, percent_used } => {
            (T::Notice, format!("{percent_used}% of the budget is spent: {spent_usd} of {cap_usd} dollars"))
        }
        E::BudgetExhausted { spent_usd, cap_usd, needed_usd } => {
            (T::Notice, budget_exhausted(*spent_usd, *cap_usd, *needed_usd))
        }
        E::QuotaExceeded { message, reset_at } => (T::Notice, quota_exceeded(message.as_deref(), *reset_at)),
        E::QuotaReset {} => (T::Notice, "The quota can be used again".to_owned()),
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
            (T::Notice, format!("The agent works with {model_id}{level}"))
        }
        E::AllowanceChanged { allowance_usd, .. } => {
            (T::Notice, format!("The run may spend {allowance_usd} dollars in all"))
        }
        E::DeliverablesChanged { pending, passed, blocked } => {
            let total = pending.saturating_add(*passed).saturating_add(*blocked);
            (T::TodoUpdate, format!("{passed} of {total} deliverables are passed, {blocked} are blocked"))
        }
        E::BudgetChanged { cap_usd } => (T::Notice, format!("The cap is {cap_usd} dollars now")),
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
            format!("Session {continuation} goes on with the work{}", and_messages(message_ids.len())),
        ),
        E::WorkTakenUp { from_session_id, position, message_ids, .. } => (
            T::HandoffInitiated,
            format!(
                "Goes on with the work of session {from_session_id}, as number {position} of its chain{}",
                and_messages(message_ids.len())
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
            let who = if *by_default { "Nobody answered; the default: " } else { "" };
            (T::UserAnswer, format!("{who}{}", answers.join(", ")))
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
        E::MessageEnqueued { content, source, priority, .. } => {
            (T::Message, format!("{source:?} ({priority:?}): {content}"))
        }
        E::MessageUncertain { .. } => (T::Notice, "Nobody knows whether the agent got a message".to_owned()),
        E::MessageReturned { reason, .. } => (T::Notice, format!("A message waits again: {reason}")),
        E::MessageCancelled { reason: Some(reason), .. } => {
            (T::Notice, format!("A message was cancelled: {reason}"))
        }
        E::MessagesHeld {} => {
            (T::Notice, "Messages are held until you send, promote or release one".to_owned())
        }
        E::RunStopOrdered { mode: StopMode::Kill, .. } => {
            (T::Notice, "The sidecar's process is being ended".to_owned())
        }
        E::RunEnded { detail, .. } => (
            T::Notice,
            detail.as_ref().map_or("The sidecar's process is gone".to_owned(), |d| {
                format!("The sidecar's process is gone: {d}")
            }),
        ),
        E::CommandReissued { kind, command } if command.attempt > 1 => {
            (T::Notice, format!("{kind:?} was not acknowledged and is sent once more"))
        }
        E::CommandLate { kind } => (T::Notice, format!("{kind:?} takes long")),
        E::CommandRefused { message, .. } => (T::Notice, format!("The sidecar refused: {message}")),
        E::AfterStopActivity { what } => {
            (T::Notice, format!("The agent was stopped and yet there was {what}"))
        }
        E::EventsLost { from_sequence, to_sequence } => {
            (T::Notice, format!("Events {from_sequence} to {to_sequence} are lost"))
        }
        E::FactIgnored { fact, reason } => {
            (T::Notice, format!("{fact}, which had waited, changed nothing: {reason}"))
        }
        E::EventQuarantined { errors } => {
            (T::Notice, format!("An event could not be read: {}", errors.join("; ")))
        }
        E::EventRedriven { sequence } => (
            T::Notice,
            format!("Event {sequence}, which had been set aside, was sent again and applied late"),
        ),
        E::PoolExhausted { current_count, max_count } => {
            (T::Notice, format!("Waits for a slot: {current_count} of {max_count} are in use"))
        }
        E::EventClassified { classified_as, .. } => {
            (T::Notice, format!("Started for an event that is classified as {classified_as}"))
        }
        E::SessionSkillEnabled { skill_id } => (T::SkillEnabled, format!("Skill {skill_id} is enabled")),
        E::SessionSkillDisabled { skill_id } => (T::Notice, format!("Skill {skill_id} is disabled")),
        E::ReloadRequested { .. } => (T::Notice, "The agent's configuration is to be reloaded".to_owned()),
        E::Reloaded {} => (T::Notice, "The new configuration is in force".to_owned()),
        E::MemoryPillRecorded { skill_id, category, .. } => {
            (T::Notice, format!("The agent recorded a memory pill ({category:?}) for skill {skill_id}"))
        }
        E::SkillConsolidationProposed { pill_count, .. } => {
            (T::Notice, format!("The agent proposes new instructions that hold {pill_count} memory pills"))
        }
        E::DecisionLogged { content } => (T::Message, format!("Decision: {content}")),
        _ => return None,
    };
    Some(ActivityItem::new(kind, &summary, at).with_detail(if summary.chars().count() > 200 {
        &summary
    } else {
        ""
    }))
}
