//! The table of events that are published to other contexts (S0 8.6).

use serde::Serialize;

use super::NotificationKind;
use crate::journal::{AggregateJournalEntry, JournalEntry};
use crate::{
    ArtifactEvent, ChainEvent, CoherenceEvent, ProjectAccountEvent, ProjectAgentEvent, ProjectEvent,
    SessionEvent, SkillEvent, TemplateEvent,
};

pub const ANNOUNCED_EVENTS: &[&str] = &[
    "AgentSessionCreatedEvent",
    "AgentSessionStartedEvent",
    "AgentSessionTurnCompletedEvent",
    "SessionInterruptedEvent",
    "SessionPausedEvent",
    "SessionResumedEvent",
    "SessionCancelledEvent",
    "AgentSessionOutputReadyEvent",
    "AgentSessionApprovedEvent",
    "AgentSessionClosedEvent",
    "AgentSessionRejectedEvent",
    "AgentSessionFailedEvent",
    "AgentSessionRetriedEvent",
    "SessionBudgetWarningEvent",
    "SessionBudgetExhaustedEvent",
    "SessionSpendUnmeteredEvent",
    "SessionQuotaExceededEvent",
    "SessionModelUnavailableEvent",
    "SessionAdjustedEvent",
    "SessionDeliverablesChangedEvent",
    "ContextNearingLimitEvent",
    "ContextExhaustedEvent",
    "SessionVoluntaryHandoffEvent",
    "SessionWaitingForInputEvent",
    "SessionInputReceivedEvent",
    "SessionPlanPendingApprovalEvent",
    "SessionPlanApprovedEvent",
    "SessionPlanRejectedEvent",
    "SessionAfterStopActivityEvent",
    "SessionEventsLostEvent",
    "SessionPoolExhaustedEvent",
    "SessionReleasedEvent",
    "AgentApiTaskCreatedEvent",
    "AgentLearningRecordedEvent",
    "AgentSessionEventClassifiedEvent",
    "SessionAutoContinueStoppedEvent",
    "SessionSkillEnabledEvent",
    "SessionSkillDisabledEvent",
    "AgentSkillCreatedEvent",
    "AgentSkillUpdatedEvent",
    "AgentSkillInstructionsUpdatedEvent",
    "AgentSkillDeactivatedEvent",
    "AgentSkillActivatedEvent",
    "MemoryPillRecordedEvent",
    "MemoryPillDismissedEvent",
    "SkillConsolidatedEvent",
    "AgentTemplateCreatedEvent",
    "AgentTemplateUpdatedEvent",
    "AgentTemplateDeactivatedEvent",
    "AgentTemplateActivatedEvent",
    "SessionChainCreatedEvent",
    "SessionHandoffInitiatedEvent",
    "SessionAddedToChainEvent",
    "SessionChainCompletedEvent",
    "AgentTemplateScheduleRanEvent",
    "AgentTemplateScheduleSkippedEvent",
    "SessionChainCancelledEvent",
];

/// An event with the rules of its publication from the journal of its aggregate.
pub trait Publishable: Serialize {
    /// Name of the event in S0 8.6.
    fn name(&self) -> &'static str;

    /// Whether the event is published to other contexts.
    fn is_announced(&self) -> bool {
        ANNOUNCED_EVENTS.contains(&self.name())
    }

    /// The kind of the notification for the event, if the owner is notified of it (S0 8.10).
    fn notification_kind(&self) -> Option<NotificationKind>;

    fn is_published(&self) -> bool {
        self.is_announced() || self.notification_kind().is_some()
    }
}

impl Publishable for SessionEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn is_announced(&self) -> bool {
        // The journal of the skill publishes the memory pill.
        !matches!(self, Self::MemoryPillRecorded { .. }) && ANNOUNCED_EVENTS.contains(&self.name())
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        NotificationKind::of_session(self)
    }
}

impl Publishable for ChainEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        match self {
            Self::Completed { .. } => Some(NotificationKind::ChainCompleted),
            Self::Created { .. }
            | Self::HandoffInitiated { .. }
            | Self::SessionAdded { .. }
            | Self::Cancelled { .. } => None,
        }
    }
}

impl Publishable for SkillEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        None
    }
}

impl Publishable for ProjectAccountEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        match self {
            Self::Warning { .. } => Some(NotificationKind::BudgetWarning),
            Self::Braked { .. } => Some(NotificationKind::BudgetExhausted),
            Self::CapChanged { .. }
            | Self::SliceDrawn { .. }
            | Self::SliceReturned { .. }
            | Self::SliceRefused { .. }
            | Self::ReviewsCounted { .. } => None,
        }
    }
}

impl Publishable for ArtifactEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        None
    }
}

impl Publishable for CoherenceEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        None
    }
}

impl Publishable for ProjectEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        None
    }
}

impl Publishable for ProjectAgentEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        None
    }
}

impl Publishable for TemplateEvent {
    fn name(&self) -> &'static str {
        self.name()
    }

    fn notification_kind(&self) -> Option<NotificationKind> {
        match self {
            Self::ScheduleSkipped { .. } => Some(NotificationKind::ScheduleSkipped),
            Self::Created { .. }
            | Self::Updated { .. }
            | Self::Deactivated {}
            | Self::Activated {}
            | Self::ScheduleRan { .. } => None,
        }
    }
}

pub fn publishes(entry: &JournalEntry) -> bool {
    entry.events.iter().any(Publishable::is_published)
}

pub fn aggregate_publishes<E: Publishable>(entry: &AggregateJournalEntry<E>) -> bool {
    entry.events.iter().any(Publishable::is_published)
}
