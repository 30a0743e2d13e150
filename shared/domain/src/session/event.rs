//! Events of a session, with those of its message queue and of its slot in the owner's pool, which its journal records too (S0 8.6).
//!
//! Some events are not in S0. They record the path of commands, runs and messages, and serve as an outbox: reactions send commands,
//! launch runs and allocate pool slots because of them.
//!
//! An enum has one declaration, so this file is longer than the others of the crate.

use super::run::{CommandRef, RunCause, StopMode};
use super::{AgentSessionStatus, LifecycleCommand, WorkStop};
use crate::agent_api::{AgentTaskSource, NewAgentLearning, NewAgentTask};
use crate::artifact::ArtifactReport;
use crate::brake::BrakeBehavior;
use crate::coherence::Finding;
use crate::control_mode::ModeRevision;
use crate::decision::{DecisionKind, TimedOut};
use crate::effect::Severity;
use crate::escalation::{GuardrailTrip, TripSubject};
use crate::event::aggregate_events;
use crate::output::CommitSha;
use crate::output_schema::OutputViolation;
use crate::skill::MemoryPillCategory;
use crate::text::{Feedback, MessageContent};
use crate::value::{
    Adjustment, Answer, AutoContinueEnd, Disk, ExecutionMode, FailureReason, MessageImage, MessagePriority,
    MessageSource, Question, SessionOutcome, ThinkingLevel, ToolCallStatus,
};
use crate::{
    AgentLearningId, AgentSessionId, AgentSkillId, AgentTaskId, BrakeId, ClassificationRuleId,
    CoherenceIssueId, CommandId, DecisionId, HandoffDocumentId, MemoryPillId, MessageId, OutputId, RunId,
    SessionChainId, SubAgentId, Timestamp, ToolCallId, TurnId, Usd,
};

/// The events of one change of a session, in the order in which they happened.
pub type Events = Vec<SessionEvent>;

aggregate_events! {
    /// Something that happened to a session, its queue or its slot. The journal entry that contains the events names the session
    /// and the owner. A field `command` is the command that a reaction sends, `sub_agent_id` the subagent that acted, if any.
    pub enum SessionEvent {
        // The life cycle: status changes, auto-continue, hibernation.
        /// The session was created, with or without a slot.
        Created = "AgentSessionCreatedEvent" { objective: String, model_id: String },
        /// The agent started.
        Started = "AgentSessionStartedEvent" {
            working_directory: String,
            objective: String,
            model_id: String,
            #[serde(default)]
            enabled_skill_ids: Vec<AgentSkillId>,
            /// Absent in journals of earlier versions.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            execution_mode: Option<ExecutionMode>,
        },
        /// A turn ended. `turn_count` is the number of completed turns.
        TurnCompleted = "AgentSessionTurnCompletedEvent" {
            turn_count: u32,
            last_turn_at: Timestamp,
            #[serde(default, skip_serializing_if = "SessionOutcome::is_completed")]
            outcome: SessionOutcome,
        },
        /// A turn started.
        TurnStarted = "AgentSessionTurnStartedEvent" { turn_id: TurnId, message_id: Option<MessageId> },
        /// The owner requested an interrupt.
        InterruptRequested = "SessionInterruptRequestedEvent" { command: Option<CommandRef> },
        /// The turn was interrupted.
        Interrupted = "SessionInterruptedEvent" {},
        /// The owner or the budget requested a pause.
        PauseRequested = "SessionPauseRequestedEvent" { command: Option<CommandRef> },
        /// The session was paused.
        Paused = "SessionPausedEvent" {},
        /// A resume was requested. There is no command while the session is hibernated.
        ResumeRequested = "SessionResumeRequestedEvent" { command: Option<CommandRef> },
        /// The session was resumed.
        Resumed = "SessionResumedEvent" {},
        /// The process was stopped before the session resumed; the session stays paused.
        ResumeAbandoned = "SessionResumeAbandonedEvent" {},
        /// The owner requested a cancellation. There is no command if no sidecar is running.
        CancelRequested = "SessionCancelRequestedEvent" { command: Option<CommandRef> },
        /// A cancellation waits for another request to resolve (decision 16).
        CancelAccepted = "SessionCancelAcceptedEvent" {},
        /// The session was cancelled.
        Cancelled = "SessionCancelledEvent" {},
        /// An output waits for review.
        OutputReady = "AgentSessionOutputReadyEvent" {
            output_id: OutputId,
            files_changed: u32,
            tests_added: u32,
            all_tests_passing: bool,
        },
        /// The result of an output violates the schema of the brief, or a guardrail blocks it, and the agent has to correct it (decisions
        /// 79, 83).
        OutputReturned = "SessionOutputReturnedEvent" { violations: Vec<OutputViolation>, corrections_left: u8 },
        /// A guardrail of the brief tripped on a text for the agent, or on its output (decision 79).
        GuardrailTripped = "SessionGuardrailTrippedEvent" { subject: TripSubject, guardrail: GuardrailTrip },
        /// The output was approved. It is contained in the commit `commit_sha`.
        Approved = "AgentSessionApprovedEvent" { output_id: OutputId, commit_sha: Option<CommitSha> },
        /// The session was closed without output.
        Closed = "AgentSessionClosedEvent" {},
        /// The output was rejected.
        Rejected = "AgentSessionRejectedEvent" { output_id: OutputId, reason: Option<Feedback> },
        /// The session failed.
        Failed = "AgentSessionFailedEvent" { failure_reason: FailureReason, message: Option<String> },
        /// The owner retried the session. `retry_count` includes this retry.
        Retried = "AgentSessionRetriedEvent" { retry_count: u32, additional_instruction: Option<Feedback> },
        /// A turn ended, and its criteria are being checked (decision 36).
        ValidationRequested = "SessionValidationRequestedEvent" { command: CommandRef },
        ValidationPassed = "SessionValidationPassedEvent" {},
        /// Criteria are not met, and the agent continues. `reason` names the criteria; `continuation` counts this
        /// continuation too.
        ValidationFailed = "SessionValidationFailedEvent" { reason: String, continuation: u32, max_continuations: u32 },
        /// A validation was given up because something else takes precedence.
        ValidationAbandoned = "SessionValidationAbandonedEvent" { reason: String },
        /// Auto-continue stopped although the criteria are not met; the owner has to look at the session. `reason` names
        /// the unmet criteria or the problem.
        AutoContinueStopped = "SessionAutoContinueStoppedEvent" {
            cause: AutoContinueEnd,
            reason: Option<String>,
            continuations: u32,
        },
        /// The sidecar never received an answer or decision. It is sent to the agent as a message (decisions 12, 26).
        AnswerReturned = "SessionAnswerReturnedEvent" { request_id: ToolCallId },
        /// The session was inactive for its idle timeout, so its sidecar is stopped (decision 22).
        HibernationOrdered = "SessionHibernationOrderedEvent" { idle_seconds: u64 },

        // Emergency brakes.
        /// A brake holds the session (decision 72).
        Held = "SessionHeldEvent" { brake_id: BrakeId, behavior: BrakeBehavior },
        /// The session did not stop in time, and its process is being ended.
        HoldEscalated = "SessionHoldEscalatedEvent" {},
        /// A brake does not hold the session any more.
        HoldReleased = "SessionHoldReleasedEvent" { brake_id: BrakeId },
        /// The owner stopped a session that a brake holds: the release of the brake does not resume it.
        HoldKept = "SessionHoldKeptEvent" {},
        /// The process of the agent restarts under a changed control mode, and continues the conversation (decision 90).
        ProcessRestartRequested = "SessionProcessRestartRequestedEvent" { mode_revision: ModeRevision },
        /// The session waits in line because a brake lets it not start.
        StartBraked = "SessionStartBrakedEvent" { brake_id: BrakeId },

        // Budget, quota, disk, adjustments and deliverables.
        /// Spending reached the warning threshold of the budget.
        BudgetWarning = "SessionBudgetWarningEvent" { spent_usd: Usd, cap_usd: Usd, percent_used: String },
        /// Spending reached the cap, or the next model call could exceed it (decision 32). `needed_usd` is the highest
        /// possible cost of that call.
        BudgetExhausted = "SessionBudgetExhaustedEvent" {
            spent_usd: Usd,
            cap_usd: Usd,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            needed_usd: Option<Usd>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            left_usd: Option<Usd>,
        },
        /// The budget was changed. `allow_unmetered` is absent if it did not change.
        BudgetChanged = "SessionBudgetChangedEvent" {
            cap_usd: Usd,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            allow_unmetered: Option<bool>,
        },
        /// The agent does not report its cost, so the cap cannot be enforced (decision 32). If the owner does not allow
        /// that, the session is held.
        SpendUnmetered = "SessionSpendUnmeteredEvent" { allowed: bool },
        /// The run has a new allowance, a total over the life of the run (decision 32).
        AllowanceChanged = "SessionAllowanceChangedEvent" { allowance_usd: Usd, command: CommandRef },
        /// The agent's subscription quota is used up (decision 39).
        QuotaExceeded = "SessionQuotaExceededEvent" {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            message: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            reset_at: Option<Timestamp>,
        },
        /// The model of the agent does not answer, and the agent has given up its retries.
        ModelUnavailable = "SessionModelUnavailableEvent" {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            message: Option<String>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            retry_at: Option<Timestamp>,
        },
        /// The reset time of the quota has passed.
        QuotaReset = "SessionQuotaResetEvent" {},
        /// A disk is full. The session is paused or its agent waits.
        DiskFull = "SessionDiskFullEvent" { disk: Disk },
        /// The disk has space again.
        DiskFreed = "SessionDiskFreedEvent" { disk: Disk },
        /// The owner requested another model, thinking level or state of the conversation (S1 5). There is no command if
        /// no sidecar is running: the next one starts with the change or receives it.
        AdjustmentRequested = "SessionAdjustmentRequestedEvent" { adjustment: Adjustment, command: Option<CommandRef> },
        /// An adjustment took effect.
        Adjusted = "SessionAdjustedEvent" { adjustment: Adjustment },
        /// An adjustment was given up.
        AdjustmentAbandoned = "SessionAdjustmentAbandonedEvent" { adjustment: Adjustment, reason: String },
        /// The agent reported another model or thinking level. Not every adapter knows the level.
        AgentSettingsChanged = "SessionAgentSettingsChangedEvent" {
            model_id: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            thinking_level: Option<ThinkingLevel>,
        },
        /// The counts of the agent's deliverables changed (S4). `pending`: not started, or reset; `passed`: all acceptance
        /// criteria are verified; `blocked`: by an external cause.
        DeliverablesChanged = "SessionDeliverablesChangedEvent" { pending: u32, passed: u32, blocked: u32 },

        // The context window, handoffs and the chain.
        /// Context usage crossed the warning threshold. The limit is in tokens.
        ContextNearingLimit = "ContextNearingLimitEvent" { usage_percent: String, model_context_limit: Option<u64> },
        /// The context window is full. `chain_id` is absent if the chain is created with this event.
        ContextExhausted = "ContextExhaustedEvent" {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            chain_id: Option<SessionChainId>,
        },
        /// The agent hands over before its context window is full. `chain_id` is absent if the chain is created with this
        /// event.
        VoluntaryHandoff = "SessionVoluntaryHandoffEvent" {
            reason: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            chain_id: Option<SessionChainId>,
        },
        /// A handoff document was recorded. Its id is absent in entries from before chains existed.
        HandoffDocumentRecorded = "SessionHandoffDocumentRecordedEvent" {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            handoff_document_id: Option<HandoffDocumentId>,
        },
        /// Another session continues the work and has the waiting messages (decision 30).
        WorkHandedOn = "SessionWorkHandedOnEvent" {
            chain_id: SessionChainId,
            continuation: AgentSessionId,
            message_ids: Vec<MessageId>,
        },
        /// No session continues the work, although the context window is full.
        WorkStopped = "SessionWorkStoppedEvent" { chain_id: SessionChainId, reason: WorkStop },
        /// The session continues the work of another one, as number `position` of the chain, from 1. `message_ids` moved to it.
        WorkTakenUp = "SessionWorkTakenUpEvent" {
            chain_id: SessionChainId,
            from_session_id: AgentSessionId,
            position: u32,
            message_ids: Vec<MessageId>,
        },
        /// Spend of a session was reported after its end; continuations have to count it (decision 33). `total_cost_usd`
        /// is what the session itself spent.
        LateSpend = "SessionLateSpendEvent" { total_cost_usd: Usd },
        /// The spend of earlier sessions of the chain was counted again (decision 33).
        ChainSpendCounted = "SessionChainSpendCountedEvent" { carried_usd: Usd },

        // Questions and plans of the agent.
        /// The agent asked questions and waits for answers, which have to name `request_id`.
        WaitingForInput = "SessionWaitingForInputEvent" {
            request_id: ToolCallId,
            questions: Vec<Question>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            expires_at: Option<Timestamp>,
        },
        /// A timeout of a project's policy fired. Events for its effect follow.
        RequestTimedOut = "SessionRequestTimedOutEvent" {
            request_id: ToolCallId,
            decision_id: DecisionId,
            kind: DecisionKind,
            timeout: TimedOut,
            /// The severity to which timeouts raised the decision.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            severity: Option<Severity>,
            /// Extensions so far.
            extensions: u32,
        },
        /// The owner answered, or the request timed out and its default answer or its policy applied. There is no command if
        /// the answer is sent as a message.
        InputReceived = "SessionInputReceivedEvent" {
            request_id: ToolCallId,
            answers: Vec<Answer>,
            by_default: bool,
            /// The input with which an allowed tool call is made instead.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            modified_input: Option<serde_json::Value>,
            command: Option<CommandRef>,
            /// The decision of the inbox that was resolved.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            decision_id: Option<DecisionId>,
        },
        /// The agent repeated a call that was approved when it no longer waited. The grant is used up.
        GrantUsed = "SessionGrantUsedEvent" {
            decision_id: DecisionId,
            tool_call_id: ToolCallId,
            tool: String,
        },
        /// The agent of a project started again in another session, which has the messages that were waiting.
        Restarted = "SessionRestartedEvent" { continuation: AgentSessionId, message_ids: Vec<MessageId> },
        /// The agent took over a decision of another agent, whose session ended (decision 81).
        DecisionTakenOver = "SessionDecisionTakenOverEvent" {
            decision_id: DecisionId,
            from_session_id: AgentSessionId,
        },
        /// A person resolved a decision whose session ended. The agent receives the resolution as a message.
        OrphanResolved = "SessionOrphanResolvedEvent" { decision_id: DecisionId },
        /// A request was denied, because too many were open.
        RequestDenied = "SessionRequestDeniedEvent" {
            request_id: ToolCallId,
            answers: Vec<Answer>,
            command: CommandRef,
        },
        /// A request of the agent was closed without a decision of the owner.
        RequestClosed = "SessionRequestClosedEvent" { request_id: ToolCallId },
        /// The agent entered plan mode.
        PlanCreated = "SessionPlanCreatedEvent" {},
        /// The agent submitted a plan. Decisions have to name `request_id`.
        PlanPendingApproval = "SessionPlanPendingApprovalEvent" {
            request_id: ToolCallId,
            requires_approval: bool,
            version: u32,
        },
        /// The plan was approved. There is no command if the decision is sent as a message.
        PlanApproved = "SessionPlanApprovedEvent" { request_id: ToolCallId, command: Option<CommandRef> },
        /// The plan was rejected. There is no command if the decision is sent as a message.
        PlanRejected = "SessionPlanRejectedEvent" {
            request_id: ToolCallId,
            feedback: Feedback,
            command: Option<CommandRef>,
        },

        // The agent's work: tasks, usage, messages, tool calls, subagents.
        /// The agent replaced its task list.
        TaskListUpdated = "SessionTaskListUpdatedEvent" { task_count: usize, completed_count: usize },
        /// Usage was recorded.
        MetricsUpdated = "SessionMetricsUpdatedEvent" {
            total_cost_usd: Usd,
            context_window_usage_percent: Option<String>,
            turn_count: u32,
        },
        /// A message of the conversation was recorded.
        MessageRecorded = "AgentMessageRecordedEvent" { sub_agent_id: Option<SubAgentId> },
        /// A tool call started.
        ToolCallStarted = "ToolCallStartedEvent" {
            tool_call_id: ToolCallId,
            tool_name: String,
            sub_agent_id: Option<SubAgentId>,
        },
        /// A tool call returned. `tool_name` is absent if the start of the call was not observed.
        ToolCallCompleted = "ToolCallCompletedEvent" {
            tool_call_id: ToolCallId,
            tool_name: Option<String>,
            status: ToolCallStatus,
            sub_agent_id: Option<SubAgentId>,
        },
        /// A subagent started.
        SubAgentStarted = "SubAgentSessionStartedEvent" { sub_agent_id: SubAgentId, model_id: Option<String> },
        /// A subagent completed.
        SubAgentCompleted = "SubAgentSessionCompletedEvent" { sub_agent_id: SubAgentId },
        /// A subagent failed.
        SubAgentFailed = "SubAgentSessionFailedEvent" { sub_agent_id: SubAgentId, failure_reason: FailureReason },

        // The message queue.
        /// A message was added to the queue.
        MessageEnqueued = "MessageEnqueuedEvent" {
            message_id: MessageId,
            priority: MessagePriority,
            source: MessageSource,
            content: MessageContent,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            images: Vec<MessageImage>,
        },
        /// A pending message was edited.
        MessageEdited = "MessageEditedEvent" { message_id: MessageId, content: MessageContent },
        /// A pending message was moved.
        MessageMoved = "MessageMovedEvent" { message_id: MessageId },
        /// A message was sent to the sidecar.
        MessageDispatched = "MessageDispatchedEvent" { message_id: MessageId, command: CommandRef },
        /// The agent received a message.
        MessageDelivered = "MessageDeliveredEvent" {
            message_id: MessageId,
            source: MessageSource,
            content: MessageContent,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            images: Vec<MessageImage>,
            delivered_at: Timestamp,
        },
        /// It is unknown whether the agent received a message (decision 30).
        MessageUncertain = "MessageDeliveryUncertainEvent" { message_id: MessageId },
        /// A message that was sent but not received is pending again.
        MessageReturned = "MessageReturnedEvent" { message_id: MessageId, reason: String },
        /// A message was cancelled. `reason` is `turn-over` or `session-ended`, and absent if the owner cancelled it.
        MessageCancelled = "MessageCancelledEvent" { message_id: MessageId, reason: Option<String> },
        /// A queued message became immediate.
        MessagePromoted = "MessagePromotedToImmediateEvent" { message_id: MessageId },
        /// Messages are held until the owner acts (decision 29).
        MessagesHeld = "MessagesHeldEvent" {},
        /// The owner lifted the hold.
        MessagesReleased = "MessagesReleasedEvent" {},

        // Runs, commands, envelopes and slots.
        /// Run number `ordinal` of the session, from 1, was created and has to be launched (decision 7).
        RunRequested = "SessionRunRequestedEvent" { run_id: RunId, ordinal: u32, cause: RunCause },
        /// The session needs a pool slot for a new run.
        SlotWanted = "SessionSlotWantedEvent" { cause: RunCause },
        /// The sidecar of a run is ready and receives `begin`.
        RunReady = "SessionRunReadyEvent" { command: CommandRef },
        /// A run has to stop. `command` names the run, and is the `stop` command of a graceful stop.
        RunStopOrdered = "SessionRunStopOrderedEvent" { command: CommandRef, mode: StopMode },
        /// A run ended. `status` is that of the session afterwards. The end is uncertain if the owner declared the machine
        /// of the run lost, so that the end of its process was not observed.
        RunEnded = "SessionRunEndedEvent" {
            run_id: RunId,
            status: AgentSessionStatus,
            detail: Option<String>,
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            end_uncertain: bool,
        },
        /// Nothing was received from a run for too long. Its deadlines stop until something is (decision 13).
        RunUnreachable = "SessionRunUnreachableEvent" { run_id: RunId },
        /// Something was received from a run that was unreachable. Its deadlines restart.
        RunReachable = "SessionRunReachableEvent" { run_id: RunId, after_seconds: u64 },
        /// A command was not acknowledged and is sent once more (decision 12).
        CommandReissued = "SessionCommandReissuedEvent" { kind: LifecycleCommand, command: CommandRef },
        /// A command takes longer than expected (decision 12).
        CommandLate = "SessionCommandLateEvent" { kind: LifecycleCommand },
        /// The sidecar refused a command. `code` is stable; `message` is for a person.
        CommandRefused = "SessionCommandRefusedEvent" { command_id: CommandId, code: String, message: String },
        /// The session needs a capability that its agent lacks, named as in the session's view.
        CapabilityMissing = "SessionCapabilityMissingEvent" { capability: String, consequence: String },
        /// The agent acted after it had been stopped (decision 15). `what` is `a message`, `a tool call` or `a turn`.
        AfterStopActivity = "SessionAfterStopActivityEvent" { what: String },
        /// Missing envelopes are requested from the sidecar (decision 9). Both sequences are included.
        ReplayRequested = "SessionReplayRequestedEvent" { command: CommandRef, from_sequence: u64, to_sequence: u64 },
        /// Missing envelopes were given up (decision 9). Both sequences are included.
        EventsLost = "SessionEventsLostEvent" { from_sequence: u64, to_sequence: u64 },
        /// A deferred fact changed nothing when it was applied (decision 17).
        FactIgnored = "SessionFactIgnoredEvent" { fact: String, reason: String },
        /// An authentic envelope could not be read and was quarantined.
        EventQuarantined = "SessionEventQuarantinedEvent" { errors: Vec<String> },
        /// A quarantined event was sent again by an operator and applied (decision 9). Its effects are in the same entry.
        EventRedriven = "SessionEventRedrivenEvent" { sequence: u64 },
        /// A slot of the pool was allocated.
        SlotAllocated = "SessionAllocatedEvent" { active_count: usize, max_count: u32 },
        /// A slot of the pool was released.
        SlotReleased = "SessionReleasedEvent" { active_count: usize, max_count: u32 },
        /// No slot was free, so the session waits in line.
        PoolExhausted = "SessionPoolExhaustedEvent" { current_count: usize, max_count: u32 },
        /// The number of slots was changed. `next` is the next session in line, if a slot is free.
        PoolConfigured = "SessionPoolConfiguredEvent" { max_count: u32, next: Option<AgentSessionId> },

        // Template, skills, and what the agent records through its API.
        /// A session was started for an external event, because a rule of its template matched.
        EventClassified = "AgentSessionEventClassifiedEvent" { rule_id: ClassificationRuleId, classified_as: String },
        /// The agent created a task through the agent API (AG-012).
        ApiTaskCreated = "AgentApiTaskCreatedEvent" {
            created_task_id: AgentTaskId,
            #[serde(flatten)]
            task: NewAgentTask,
            source: AgentTaskSource,
        },
        /// The agent recorded a learning about people or communication (AG-014).
        LearningRecorded = "AgentLearningRecordedEvent" {
            learning_id: AgentLearningId,
            #[serde(flatten)]
            learning: NewAgentLearning,
        },
        /// The agent reported a version of an artifact (S2 `ArtifactEvent`). The journal of the artifact has its own event.
        ArtifactReported = "SessionArtifactReportedEvent" {
            #[serde(flatten)]
            report: Box<ArtifactReport>,
        },
        /// A report or a flag of the agent raised a coherence issue (S2 `CoherenceEvent`). The journal of the issue has its own event.
        CoherenceIssueRaised = "CoherenceIssueRaisedEvent" {
            issue_id: CoherenceIssueId,
            #[serde(flatten)]
            finding: Box<Finding>,
        },
        /// The agent logged a decision (S0 8.7).
        DecisionLogged = "AgentDecisionLoggedEvent" { content: String },
        /// A skill was enabled for the session.
        SkillEnabled = "SessionSkillEnabledEvent" { skill_id: AgentSkillId },
        /// A skill was disabled for the session.
        SkillDisabled = "SessionSkillDisabledEvent" { skill_id: AgentSkillId },
        /// The configuration has to be reloaded. There is no command if no running sidecar can reload: the next one starts
        /// with the new configuration.
        ReloadRequested = "SessionReloadRequestedEvent" { command: Option<CommandRef> },
        /// The new configuration is active.
        Reloaded = "SessionReloadedEvent" {},
        /// The agent recorded a memory pill. The journal of the skill has the same event, and publishes it.
        MemoryPillRecorded = "MemoryPillRecordedEvent" {
            skill_id: AgentSkillId,
            pill_id: MemoryPillId,
            session_id: AgentSessionId,
            category: MemoryPillCategory,
        },
        /// The agent proposed new instructions for a skill. The journal of the skill has the same event.
        SkillConsolidationProposed = "SkillConsolidationProposedEvent" {
            session_id: AgentSessionId,
            pill_count: usize,
        },
    }
}
