//! What is told beyond a session: to other contexts, and to its owner (S0 8.6, 8.10; ruling 37).
//!
//! Both tables stand here: which events are told to others ([`ANNOUNCED`]), and which an owner is notified of
//! ([`notice`]). What is told is numbered per owner, without gaps, in the order in which it was told; a number stands for an
//! announcement and for the notification of the same event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{JournalEntry, budget_exhausted, quota_exceeded};
use crate::template::ScheduleSkip;
use crate::{AgentSessionId, DomainEvent, EventId, OwnedEntry, Timestamp, UserId};

/// Who tells, on a bus of several systems.
pub const SOURCE: &str = "pilothouse.agents";

/// An event that is told to other contexts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// Its place among what is told of its owner.
    pub sequence: u64,
    /// Names the event, each time that it is told: the journal entry's id and the event's place in it.
    pub id: String,
    /// The event, as S0 8.6 names it.
    #[serde(rename = "type")]
    pub event: String,
    /// [`SOURCE`].
    pub source: String,
    /// When it happened.
    pub at: Timestamp,
    /// `sessionId`, `ownerId` and the fields of the event.
    pub detail: Value,
}

/// What an owner is notified of. The names are those on the wire, in kebab-case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// Output was approved: the session is done.
    SessionCompleted,
    /// The session failed.
    SessionFailed,
    /// Output waits for a decision.
    OutputReady,
    /// The agent asks.
    WaitingForInput,
    /// A plan waits for a decision.
    WaitingForApproval,
    /// Most of the budget is spent.
    BudgetWarning,
    /// All of it is.
    BudgetExhausted,
    /// The plan that pays for the agent is used up (ruling 39).
    QuotaExceeded,
    /// The context window is full.
    ContextExhausted,
    /// The agent acted although it had been stopped (ruling 15).
    AfterStopActivity,
    /// Events of the agent are lost (ruling 9).
    EventsLost,
    /// A pause or resume takes long (ruling 12).
    RunLate,
    /// The session does not go on by itself any more, and its criteria are not met.
    AutoContinueStopped,
    /// A chain is done.
    ChainCompleted,
    /// A schedule named a time, and no session was started.
    ScheduleSkipped,
    /// A webhook was given up.
    WebhookDisabled,
}

/// A notification of an owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Its place among what is told of its owner; notifications have gaps between them, as not everything notifies.
    pub sequence: u64,
    /// What it is about.
    pub kind: NotificationKind,
    /// A sentence.
    pub text: String,
    /// The session that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<AgentSessionId>,
    /// When it happened.
    pub at: Timestamp,
    /// When its owner read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_at: Option<Timestamp>,
}

/// Something that is to be told, before it has its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// Names it.
    pub id: String,
    /// When it happened.
    pub at: Timestamp,
    /// What others are told: the event's name and its details.
    pub announced: Option<(String, Value)>,
    /// What the owner is told.
    pub notice: Option<(NotificationKind, String)>,
    /// The session that it is about.
    pub session_id: Option<AgentSessionId>,
}

impl Telling {
    /// What an entry of a session's journal tells, event by event.
    pub fn of(entry: &JournalEntry) -> Vec<Self> {
        let session = entry.session_id;
        let about = ("sessionId".to_owned(), session.to_string());
        Self::of_events(entry.id, entry.at, &entry.owner_id, &about, &entry.events, Some(session))
    }

    /// What an entry of another aggregate's journal tells.
    pub fn of_owned(entry: &OwnedEntry) -> Vec<Self> {
        let about = (format!("{}Id", entry.kind), entry.aggregate_id.clone());
        Self::of_events(entry.id, entry.at, &entry.owner_id, &about, &entry.events, None)
    }

    fn of_events(
        id: EventId,
        at: Timestamp,
        owner: &UserId,
        about: &(String, String),
        events: &[DomainEvent],
        session_id: Option<AgentSessionId>,
    ) -> Vec<Self> {
        let teller = if session_id.is_some() { Teller::Session } else { Teller::Other };
        let told = events.iter().enumerate().filter(|(_, event)| tells_of(event, teller));
        let told = told.map(|(place, event)| Self {
            id: format!("{id}.{place}"),
            at,
            announced: announcer(event).map(|_| (event.name().to_owned(), detail(event, about, owner))),
            notice: notice(event),
            session_id,
        });
        told.collect()
    }

    /// The announcement under its number.
    pub fn announcement(&self, sequence: u64) -> Option<Announcement> {
        let (event, detail) = self.announced.clone()?;
        let (id, source) = (self.id.clone(), SOURCE.to_owned());
        Some(Announcement { sequence, id, event, source, at: self.at, detail })
    }

    /// The notification under its number.
    pub fn notification(&self, sequence: u64) -> Option<Notification> {
        let (kind, text) = self.notice.clone()?;
        Some(Notification { sequence, kind, text, session_id: self.session_id, at: self.at, read_at: None })
    }
}

/// Whether a journal of `teller` tells of an event. One that only notifies is its session's.
fn tells_of(event: &DomainEvent, teller: Teller) -> bool {
    match announcer(event) {
        Some(announcer) => announcer == teller,
        None => teller == Teller::Session && notice(event).is_some(),
    }
}

/// Whether an entry of a session's journal tells anything.
pub fn tells(entry: &JournalEntry) -> bool {
    entry.events.iter().any(|event| tells_of(event, Teller::Session))
}

/// Whether an entry of another aggregate's journal does.
pub fn owned_tells(entry: &OwnedEntry) -> bool {
    entry.events.iter().any(|event| tells_of(event, Teller::Other))
}

/// Whose journal tells an event. Some stand in two, and are told once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Teller {
    Session,
    /// Another aggregate: a chain, a skill, a template.
    Other,
}

macro_rules! announced_events {
    (Session: $($event:ident = $name:literal),*; Other: $($owned:ident = $owned_name:literal),*;) => {
        /// Whose journal tells other contexts of an event; none: nobody's.
        const fn announcer(event: &DomainEvent) -> Option<Teller> {
            match event {
                $(DomainEvent::$event { .. })|* => Some(Teller::Session),
                $(DomainEvent::$owned { .. })|* => Some(Teller::Other),
                _ => None,
            }
        }

        /// The names of the events that other contexts are told of.
        pub const ANNOUNCED: &[&str] = &[$($name,)* $($owned_name),*];
    };
}

announced_events! {
    Session:
    SessionCreated = "AgentSessionCreatedEvent",
    SessionStarted = "AgentSessionStartedEvent",
    TurnCompleted = "AgentSessionTurnCompletedEvent",
    Interrupted = "SessionInterruptedEvent",
    Paused = "SessionPausedEvent",
    Resumed = "SessionResumedEvent",
    Cancelled = "SessionCancelledEvent",
    OutputReady = "AgentSessionOutputReadyEvent",
    Approved = "AgentSessionApprovedEvent",
    Closed = "AgentSessionClosedEvent",
    Rejected = "AgentSessionRejectedEvent",
    Failed = "AgentSessionFailedEvent",
    Retried = "AgentSessionRetriedEvent",
    BudgetWarning = "SessionBudgetWarningEvent",
    BudgetExhausted = "SessionBudgetExhaustedEvent",
    QuotaExceeded = "SessionQuotaExceededEvent",
    Adjusted = "SessionAdjustedEvent",
    DeliverablesChanged = "SessionDeliverablesChangedEvent",
    ContextNearingLimit = "ContextNearingLimitEvent",
    ContextExhausted = "ContextExhaustedEvent",
    VoluntaryHandoff = "SessionVoluntaryHandoffEvent",
    WaitingForInput = "SessionWaitingForInputEvent",
    InputReceived = "SessionInputReceivedEvent",
    PlanPendingApproval = "SessionPlanPendingApprovalEvent",
    PlanApproved = "SessionPlanApprovedEvent",
    PlanRejected = "SessionPlanRejectedEvent",
    AfterStopActivity = "SessionAfterStopActivityEvent",
    EventsLost = "SessionEventsLostEvent",
    PoolExhausted = "SessionPoolExhaustedEvent",
    ApiTaskCreated = "AgentApiTaskCreatedEvent",
    LearningRecorded = "AgentLearningRecordedEvent",
    EventClassified = "AgentSessionEventClassifiedEvent",
    AutoContinueStopped = "SessionAutoContinueStoppedEvent",
    SessionSkillEnabled = "SessionSkillEnabledEvent",
    SessionSkillDisabled = "SessionSkillDisabledEvent";
    Other:
    SkillCreated = "AgentSkillCreatedEvent",
    SkillUpdated = "AgentSkillUpdatedEvent",
    SkillInstructionsUpdated = "AgentSkillInstructionsUpdatedEvent",
    SkillDeactivated = "AgentSkillDeactivatedEvent",
    SkillActivated = "AgentSkillActivatedEvent",
    MemoryPillRecorded = "MemoryPillRecordedEvent",
    MemoryPillDismissed = "MemoryPillDismissedEvent",
    SkillConsolidated = "SkillConsolidatedEvent",
    TemplateCreated = "AgentTemplateCreatedEvent",
    TemplateUpdated = "AgentTemplateUpdatedEvent",
    TemplateDeactivated = "AgentTemplateDeactivatedEvent",
    TemplateActivated = "AgentTemplateActivatedEvent",
    ChainCreated = "SessionChainCreatedEvent",
    HandoffInitiated = "SessionHandoffInitiatedEvent",
    AddedToChain = "SessionAddedToChainEvent",
    ChainCompleted = "SessionChainCompletedEvent",
    TemplateScheduleRan = "AgentTemplateScheduleRanEvent",
    TemplateScheduleSkipped = "AgentTemplateScheduleSkippedEvent",
    ChainCancelled = "SessionChainCancelledEvent";
}

/// What the owner is notified of, in a sentence (S0 8.10).
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
                || format!("The session failed: {failure_reason:?}."),
                |message| format!("The session failed: {failure_reason:?}: {message}"),
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
        E::QuotaExceeded { message, reset_at } => {
            (K::QuotaExceeded, format!("{}.", quota_exceeded(message.as_deref(), *reset_at)))
        }
        E::ContextExhausted { .. } => (K::ContextExhausted, "The context window is full.".to_owned()),
        E::AfterStopActivity { what } => {
            (K::AfterStopActivity, format!("The agent was stopped and yet there was {what}."))
        }
        E::EventsLost { from_sequence, to_sequence } => {
            (K::EventsLost, format!("Events {from_sequence} to {to_sequence} of the agent are lost."))
        }
        E::AutoContinueStopped { reason, continuations, .. } => (
            K::AutoContinueStopped,
            format!(
                "The session went on {continuations} times and stops: {}.",
                reason.as_deref().unwrap_or("its criteria are not met").trim_end_matches('.')
            ),
        ),
        E::ChainCompleted { total_sessions, total_cost_usd, .. } => (
            K::ChainCompleted,
            format!("The chain is done: {total_sessions} sessions, {total_cost_usd} dollars."),
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
        E::CommandLate { kind } => (K::RunLate, format!("{kind:?} takes long.")),
        _ => return None,
    })
}

/// The fields of an event, without those that only its own system acts upon, under the ids that say whose it is.
fn detail(event: &DomainEvent, about: &(String, String), owner: &UserId) -> Value {
    let mut fields = match serde_json::to_value(event) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.remove("type");
    fields.remove("command");
    fields.insert(about.0.clone(), about.1.clone().into());
    fields.insert("ownerId".to_owned(), owner.as_str().into());
    Value::Object(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::RunId;
    use crate::journal::Cause;

    fn entry(events: Vec<DomainEvent>) -> JournalEntry {
        JournalEntry {
            id: "01890a5d-ac96-774b-bcce-b302099a8058".parse::<EventId>().unwrap(),
            session_id: "01890a5d-ac96-774b-bcce-b302099a8059".parse().unwrap(),
            owner_id: UserId::parse("ada").unwrap(),
            sequence: 7,
            at: Timestamp::from_millis(1),
            cause: Cause::Clock,
            events,
            status: None,
            activity: Vec::new(),
            ignored_reason: None,
            traceparent: None,
        }
    }

    #[test]
    fn an_entry_tells_its_announced_events_under_stable_names() {
        let run_id: RunId = "01890a5d-ac96-774b-bcce-b302099a805a".parse().unwrap();
        let lost = DomainEvent::EventsLost { from_sequence: 2, to_sequence: 4 };
        let command = Some(crate::CommandRef {
            command_id: "01890a5d-ac96-774b-bcce-b302099a805b".parse().unwrap(),
            run_id,
            attempt: 1,
        });
        let request_id = crate::ToolCallId::parse("p1").unwrap();
        let entry =
            entry(vec![DomainEvent::PlanCreated {}, lost, DomainEvent::PlanApproved { request_id, command }]);
        let told = Telling::of(&entry);
        assert!(tells(&entry));
        assert_eq!(told.len(), 2, "{told:?}");
        let first = told[0].announcement(9).unwrap();
        assert_eq!((first.sequence, first.event.as_str()), (9, "SessionEventsLostEvent"));
        assert_eq!(first.id, "01890a5d-ac96-774b-bcce-b302099a8058.1");
        assert_eq!(first.detail["fromSequence"], 2);
        assert_eq!(first.detail["ownerId"], "ada");
        assert_eq!(told[0].notification(9).unwrap().kind, NotificationKind::EventsLost);
        let second = told[1].announcement(10).unwrap();
        assert_eq!(second.detail.get("command"), None, "orders are nobody else's");
        assert_eq!(second.detail["requestId"], "p1");
        assert_eq!(told[1].notification(10), None);
    }

    #[test]
    fn names_in_the_table_are_those_of_the_events() {
        let paused = DomainEvent::Paused {};
        assert!(announcer(&paused) == Some(Teller::Session) && ANNOUNCED.contains(&paused.name()));
        for name in ANNOUNCED {
            assert!(name.ends_with("Event"), "{name}");
            assert_eq!(ANNOUNCED.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert!(!tells(&entry(vec![DomainEvent::PlanCreated {}])));
        let chain =
            DomainEvent::ChainCancelled { chain_id: "01890a5d-ac96-774b-bcce-b302099a8058".parse().unwrap() };
        assert!(!tells(&entry(vec![chain])), "its own journal tells it");
    }
}
