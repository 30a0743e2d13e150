//! The table of events that are published to other contexts (S0 8.6).

use super::notification_kind;
use crate::journal::JournalEntry;
use crate::{AggregateJournalEntry, DomainEvent};

/// The journal from which an event is published. Some events are in two journals and are published from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceJournal {
    Session,
    /// Another aggregate: a chain, a skill, a template.
    Other,
}

macro_rules! announced_events {
    (Session: $($event:ident = $name:literal),*; Other: $($aggregate:ident = $owned_name:literal),*;) => {
        /// The journal from which an event is published to other contexts; `None` if it is not published.
        pub(super) const fn source_journal(event: &DomainEvent) -> Option<SourceJournal> {
            match event {
                $(DomainEvent::$event { .. })|* => Some(SourceJournal::Session),
                $(DomainEvent::$aggregate { .. })|* => Some(SourceJournal::Other),
                _ => None,
            }
        }

        /// Names of the events that are published to other contexts.
        pub const ANNOUNCED_EVENTS: &[&str] = &[$($name,)* $($owned_name),*];
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
    SpendUnmetered = "SessionSpendUnmeteredEvent",
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

/// Whether an entry of a `source`'s journal publishes the event. Events that only notify are published from session journals.
pub(super) fn is_published_from(event: &DomainEvent, source: SourceJournal) -> bool {
    match source_journal(event) {
        Some(source_journal) => source_journal == source,
        None => source == SourceJournal::Session && notification_kind(event).is_some(),
    }
}

/// Whether any event of a session's journal entry is published.
pub fn publishes(entry: &JournalEntry) -> bool {
    entry.events.iter().any(|event| is_published_from(event, SourceJournal::Session))
}

/// Whether any event of another aggregate's journal entry is published.
pub fn aggregate_publishes(entry: &AggregateJournalEntry) -> bool {
    entry.events.iter().any(|event| is_published_from(event, SourceJournal::Other))
}
