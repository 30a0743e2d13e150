//! The class of each event of a session: S2's type of event, with what the type distinguishes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::AgentEventType;
use crate::SessionEvent;
use crate::effect::Severity;
use crate::value::{AutoContinueEnd, FailureReason, SessionOutcome, ToolCallStatus};

/// What an event of a session is to a client. Decisions, guardrails of tool calls and events that are only logged have other sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventClass {
    Status,
    ToolCall(ToolCallPhase),
    Completion(CompletionOutcome),
    Error(ErrorTraits),
    Delegation(DelegationAction),
    Lifecycle(LifecycleAction),
    Progress,
    Artifact,
    Coherence,
    Guardrail,
}

/// How far a tool call is (S2 `ToolCallEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolCallPhase {
    /// The agent made the call. It may still wait for a permission.
    Requested,
    Completed,
    Failed,
}

/// How the work of an agent ended (S2 `CompletionEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionOutcome {
    Success,
    Partial,
    MaxTurns,
}

/// The traits of an error (S2 `ErrorEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorTraits {
    pub severity: Severity,
    /// Whether the agent can continue without a new start of its session.
    pub recoverable: bool,
    pub category: ErrorCategory,
}

/// Where an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCategory {
    /// The service that runs the model.
    Provider,
    /// The agent itself.
    Model,
    Timeout,
    /// The machine, the sidecar or the control plane.
    Internal,
}

/// How an agent hands work to another one (S2 `DelegationEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelegationAction {
    Spawned,
    Handoff,
    Returned,
}

/// A step in the life of an agent (S2 `LifecycleEvent`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LifecycleAction {
    Started,
    Paused,
    Resumed,
    Killed,
    Crashed,
    SessionStart,
    SessionEnd,
}

impl EventClass {
    /// The class of an event. `None` if another event of the same change shows it: the agent's own event, a decision, or a step of the
    /// control plane that changes nothing for the owner.
    #[allow(clippy::too_many_lines)] // one line per event, in one table
    pub const fn of(event: &SessionEvent) -> Option<Self> {
        use DelegationAction as D;
        use LifecycleAction as L;
        use SessionEvent as E;
        Some(match event {
            E::Created { .. } => Self::Lifecycle(L::SessionStart),
            E::Started { .. } | E::Retried { .. } => Self::Lifecycle(L::Started),
            E::Interrupted {} | E::Paused {} | E::Held { .. } => Self::Lifecycle(L::Paused),
            E::Resumed {} | E::HoldReleased { .. } => Self::Lifecycle(L::Resumed),
            // Without a command, the process is ended instead of paused (S2, "Capability-gated lifecycle semantics").
            E::PauseRequested { command: None } | E::Cancelled {} | E::HoldEscalated {} => {
                Self::Lifecycle(L::Killed)
            }
            E::Closed {} | E::Approved { .. } => Self::Lifecycle(L::SessionEnd),

            E::TurnCompleted { outcome, .. } => Self::of_turn(*outcome),
            E::OutputReady { .. } => Self::Completion(CompletionOutcome::Success),
            E::AutoContinueStopped { cause, .. } => Self::Completion(match cause {
                AutoContinueEnd::MaxContinuations => CompletionOutcome::MaxTurns,
                AutoContinueEnd::BudgetExhausted
                | AutoContinueEnd::ValidationUnavailable
                | AutoContinueEnd::NotDelivered => CompletionOutcome::Partial,
            }),

            E::Failed { failure_reason, .. } => Self::of_failure(*failure_reason),
            E::RunUnreachable { .. } => Self::error(Severity::Medium, true, ErrorCategory::Timeout),
            E::QuotaExceeded { .. } | E::ModelUnavailable { .. } => {
                Self::error(Severity::Medium, true, ErrorCategory::Provider)
            }
            E::BudgetExhausted { .. } | E::DiskFull { .. } => {
                Self::error(Severity::High, true, ErrorCategory::Internal)
            }
            E::CommandRefused { .. } | E::EventsLost { .. } | E::EventQuarantined { .. } => {
                Self::error(Severity::Low, true, ErrorCategory::Internal)
            }
            E::AfterStopActivity { .. } => Self::error(Severity::High, true, ErrorCategory::Model),

            E::ToolCallStarted { .. } => Self::ToolCall(ToolCallPhase::Requested),
            E::ToolCallCompleted { status, .. } => Self::ToolCall(match status {
                ToolCallStatus::Pending => ToolCallPhase::Requested,
                ToolCallStatus::Success => ToolCallPhase::Completed,
                ToolCallStatus::Error => ToolCallPhase::Failed,
            }),

            E::SubAgentStarted { .. } => Self::Delegation(D::Spawned),
            E::SubAgentCompleted { .. } | E::SubAgentFailed { .. } => Self::Delegation(D::Returned),
            E::VoluntaryHandoff { .. } | E::WorkHandedOn { .. } => Self::Delegation(D::Handoff),

            E::TaskListUpdated { .. } | E::DeliverablesChanged { .. } => Self::Progress,

            E::ArtifactReported { .. } => Self::Artifact,
            E::CoherenceIssueRaised { .. } => Self::Coherence,

            E::GuardrailTripped { .. } => Self::Guardrail,

            E::TurnStarted { .. }
            | E::InterruptRequested { .. }
            | E::PauseRequested { command: Some(_) }
            | E::ResumeRequested { .. }
            | E::ResumeAbandoned {}
            | E::CancelRequested { .. }
            | E::CancelAccepted {}
            | E::Rejected { .. }
            | E::ValidationRequested { .. }
            | E::ValidationPassed {}
            | E::ValidationFailed { .. }
            | E::ValidationAbandoned { .. }
            | E::OutputReturned { .. }
            | E::Restarted { .. }
            | E::HibernationOrdered { .. }
            | E::HoldKept {}
            | E::ProcessRestartRequested { .. }
            | E::StartBraked { .. }
            | E::BudgetWarning { .. }
            | E::BudgetChanged { .. }
            | E::SpendUnmetered { .. }
            | E::QuotaReset {}
            | E::DiskFreed { .. }
            | E::AdjustmentRequested { .. }
            | E::Adjusted { .. }
            | E::AdjustmentAbandoned { .. }
            | E::AgentSettingsChanged { .. }
            | E::ContextNearingLimit { .. }
            | E::ContextExhausted { .. }
            | E::WorkTakenUp { .. }
            | E::WorkStopped { .. }
            | E::PlanCreated {}
            | E::MessageDelivered { .. }
            | E::MessageUncertain { .. }
            | E::RunReachable { .. }
            | E::CommandLate { .. }
            | E::CapabilityMissing { .. }
            | E::EventRedriven { .. }
            | E::PoolExhausted { .. }
            | E::EventClassified { .. }
            | E::ApiTaskCreated { .. }
            | E::LearningRecorded { .. }
            | E::DecisionLogged { .. }
            | E::SkillEnabled { .. }
            | E::SkillDisabled { .. }
            | E::Reloaded {}
            | E::MemoryPillRecorded { .. }
            | E::SkillConsolidationProposed { .. } => Self::Status,

            // The decision shows them.
            E::WaitingForInput { .. }
            | E::RequestTimedOut { .. }
            | E::InputReceived { .. }
            | E::GrantUsed { .. }
            | E::RequestDenied { .. }
            | E::DecisionTakenOver { .. }
            | E::OrphanResolved { .. }
            | E::RequestClosed { .. }
            | E::AnswerReturned { .. }
            | E::PlanPendingApproval { .. }
            | E::PlanApproved { .. }
            | E::PlanRejected { .. }
            // The agent's own event shows them.
            | E::MetricsUpdated { .. }
            | E::MessageRecorded { .. }
            // Steps of the control plane.
            | E::AllowanceChanged { .. }
            | E::HandoffDocumentRecorded { .. }
            | E::LateSpend { .. }
            | E::ChainSpendCounted { .. }
            | E::MessageEnqueued { .. }
            | E::MessageEdited { .. }
            | E::MessageMoved { .. }
            | E::MessageDispatched { .. }
            | E::MessageReturned { .. }
            | E::MessageCancelled { .. }
            | E::MessagePromoted { .. }
            | E::MessagesHeld {}
            | E::MessagesReleased {}
            | E::RunRequested { .. }
            | E::SlotWanted { .. }
            | E::RunReady { .. }
            | E::RunStopOrdered { .. }
            | E::RunEnded { .. }
            | E::CommandReissued { .. }
            | E::ReplayRequested { .. }
            | E::FactIgnored { .. }
            | E::SlotAllocated { .. }
            | E::SlotReleased { .. }
            | E::PoolConfigured { .. }
            | E::ReloadRequested { .. } => return None,
        })
    }

    const fn of_turn(outcome: SessionOutcome) -> Self {
        match outcome {
            SessionOutcome::Completed => Self::Status,
            SessionOutcome::MaxIterations => Self::Completion(CompletionOutcome::MaxTurns),
            SessionOutcome::ExecutionError => Self::error(Severity::High, true, ErrorCategory::Model),
            SessionOutcome::BudgetExceeded => Self::error(Severity::High, true, ErrorCategory::Internal),
            SessionOutcome::QuotaExceeded => Self::error(Severity::Medium, true, ErrorCategory::Provider),
        }
    }

    const fn of_failure(reason: FailureReason) -> Self {
        match reason {
            FailureReason::ManualCancellation => Self::Lifecycle(LifecycleAction::Killed),
            FailureReason::InfrastructureError => Self::Lifecycle(LifecycleAction::Crashed),
            FailureReason::AgentError => Self::error(Severity::High, false, ErrorCategory::Model),
            FailureReason::Timeout => Self::error(Severity::High, false, ErrorCategory::Timeout),
            FailureReason::BudgetExhausted | FailureReason::VerificationFailed => {
                Self::error(Severity::High, false, ErrorCategory::Internal)
            }
        }
    }

    const fn error(severity: Severity, recoverable: bool, category: ErrorCategory) -> Self {
        Self::Error(ErrorTraits { severity, recoverable, category })
    }

    pub const fn event_type(self) -> AgentEventType {
        match self {
            Self::Status => AgentEventType::Status,
            Self::ToolCall(_) => AgentEventType::ToolCall,
            Self::Completion(_) => AgentEventType::Completion,
            Self::Error(_) => AgentEventType::Error,
            Self::Delegation(_) => AgentEventType::Delegation,
            Self::Lifecycle(_) => AgentEventType::Lifecycle,
            Self::Progress => AgentEventType::Progress,
            Self::Artifact => AgentEventType::Artifact,
            Self::Guardrail => AgentEventType::Guardrail,
            Self::Coherence => AgentEventType::Coherence,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Timestamp;

    /// The type of an event with these fields; `-` if it has none.
    fn class_of(name: &str, mut fields: Value) -> String {
        fields["type"] = name.into();
        let event: SessionEvent = serde_json::from_value(fields).unwrap();
        EventClass::of(&event).map_or_else(|| "-".to_owned(), |class| class.event_type().to_string())
    }

    #[test]
    fn events_have_the_types_of_the_specification() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8058";
        let call = json!({ "toolCallId": "c", "toolName": "Bash" });
        let ended = |status| json!({ "toolCallId": "c", "toolName": "Bash", "status": status });
        let turn = |outcome| json!({ "turn_count": 1, "turnCount": 1, "lastTurnAt": "2026-01-01T00:00:00Z", "outcome": outcome });
        let failed = |reason| json!({ "failureReason": reason, "message": null });
        for (name, fields, expected) in [
            (
                "AgentSessionStartedEvent",
                json!({ "workingDirectory": "/w", "objective": "o", "modelId": "m" }),
                "lifecycle",
            ),
            ("SessionPausedEvent", json!({}), "lifecycle"),
            ("SessionHeldEvent", json!({ "brakeId": id, "behavior": "pause" }), "lifecycle"),
            ("AgentSessionClosedEvent", json!({}), "lifecycle"),
            ("AgentSessionTurnCompletedEvent", turn("completed"), "status"),
            ("AgentSessionTurnCompletedEvent", turn("max_iterations"), "completion"),
            ("AgentSessionTurnCompletedEvent", turn("execution_error"), "error"),
            ("AgentSessionFailedEvent", failed("AgentError"), "error"),
            ("AgentSessionFailedEvent", failed("ManualCancellation"), "lifecycle"),
            ("ToolCallStartedEvent", call, "tool_call"),
            ("ToolCallCompletedEvent", ended("Success"), "tool_call"),
            ("SubAgentSessionStartedEvent", json!({ "subAgentId": "s", "modelId": null }), "delegation"),
            ("SessionTaskListUpdatedEvent", json!({ "taskCount": 2, "completedCount": 1 }), "progress"),
            ("SessionQuotaResetEvent", json!({}), "status"),
            ("SessionEventQuarantinedEvent", json!({ "errors": [] }), "error"),
            ("SessionPlanApprovedEvent", json!({ "requestId": "p", "command": null }), "-"),
            ("MessagesHeldEvent", json!({}), "-"),
        ] {
            assert_eq!(class_of(name, fields), expected, "{name}");
        }
    }

    #[test]
    fn failed_session_does_not_recover_but_a_failed_turn_does() {
        use ErrorCategory as C;
        use FailureReason as F;
        use SessionOutcome as O;
        let error = |recoverable, category| EventClass::error(Severity::High, recoverable, category);
        for (failure_reason, category) in [
            (F::AgentError, C::Model),
            (F::Timeout, C::Timeout),
            (F::BudgetExhausted, C::Internal),
            (F::VerificationFailed, C::Internal),
        ] {
            let failed = SessionEvent::Failed { failure_reason, message: None };
            assert_eq!(EventClass::of(&failed), Some(error(false, category)), "{failure_reason}");
        }
        let at = Timestamp::from_millis(0);
        let quota = EventClass::error(Severity::Medium, true, C::Provider);
        for (outcome, expected) in [
            (O::ExecutionError, error(true, C::Model)),
            (O::BudgetExceeded, error(true, C::Internal)),
            (O::QuotaExceeded, quota),
        ] {
            let turn = SessionEvent::TurnCompleted { turn_count: 1, last_turn_at: at, outcome };
            assert_eq!(EventClass::of(&turn), Some(expected), "{outcome:?}");
        }
    }

    #[test]
    fn crash_and_cancellation_are_steps_in_the_life_of_an_agent() {
        for (failure_reason, action) in [
            (FailureReason::ManualCancellation, LifecycleAction::Killed),
            (FailureReason::InfrastructureError, LifecycleAction::Crashed),
        ] {
            let failed = SessionEvent::Failed { failure_reason, message: None };
            assert_eq!(EventClass::of(&failed), Some(EventClass::Lifecycle(action)));
        }
    }
}
