//! Domain events (S0 8.6). Session and owner stand once in the journal entry that carries the events.
//!
//! Beyond S0's own list there are those that make the path of a command, a run and a message visible in the
//! journal: they are the outbox from which reactions send commands, launch runs and hand on pool slots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent_api::{AgentTaskSource, NewAgentLearning, NewAgentTask};
use crate::session::{AgentSessionStatus, LifecycleCommand, RunCause};
use crate::skill::MemoryPillCategory;
use crate::template::{ScheduleSkip, TemplateSection};
use crate::text::{Feedback, MessageContent, SkillName};
use crate::value::{
    Adjustment, Answer, AutoContinueEnd, CommitSha, FailureReason, MessagePriority, MessageSource, Question,
    SessionOutcome, ThinkingLevel, ToolCallStatus,
};
use crate::{
    AgentLearningId, AgentSessionId, AgentSkillId, AgentTaskId, ClassificationRuleId, CommandId,
    HandoffDocumentId, MemoryPillId, MessageId, OutputId, RunId, SessionChainId, SubAgentId, Timestamp,
    ToolCallId, TurnId, Usd,
};

/// A command that an event orders: which, to which run, and how often it was sent with this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandRef {
    /// The command.
    pub command_id: CommandId,
    /// The run that it is for.
    pub run_id: RunId,
    /// Counts its sendings from 1.
    pub attempt: u8,
}

/// How a run is to be ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StopMode {
    /// By a `stop` command; the runtime follows when that takes too long.
    Graceful,
    /// By the runtime, at once.
    Kill,
}

macro_rules! domain_events {
    ($($(#[$doc:meta])* $name:ident = $wire:literal { $($(#[$fdoc:meta])* $field:ident: $ty:ty),* $(,)? };)*) => {
        /// Something that happened to a session, its queue or its slot.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", rename_all_fields = "camelCase")]
        pub enum DomainEvent {
            $(
                $(#[$doc])*
                #[serde(rename = $wire)]
                $name { $($(#[$fdoc])* $field: $ty),* },
            )*
        }

        impl DomainEvent {
            /// The event's name as S0 8.6 spells it.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name { .. } => $wire,)* }
            }
        }
    };
}

domain_events! {
    /// The session was created, with or without a slot.
    SessionCreated = "AgentSessionCreatedEvent" {
        /// Its objective.
        objective: String,
        /// The model.
        model_id: String,
    };
    /// The agent begins its work.
    SessionStarted = "AgentSessionStartedEvent" {
        /// Where.
        working_directory: String,
        /// On what.
        objective: String,
        /// With which model.
        model_id: String,
    };
    /// A turn ended without output.
    TurnCompleted = "AgentSessionTurnCompletedEvent" {
        /// Turns so far.
        turn_count: u32,
        /// When.
        last_turn_at: Timestamp,
        /// How (S4); anything but `completed` says why the agent did not go on.
        #[serde(default, skip_serializing_if = "SessionOutcome::is_completed")]
        outcome: SessionOutcome,
    };
    /// A turn began.
    TurnStarted = "AgentSessionTurnStartedEvent" {
        /// Which.
        turn_id: TurnId,
        /// The message that began it.
        message_id: Option<MessageId>,
    };
    /// The owner ends the turn.
    InterruptRequested = "SessionInterruptRequestedEvent" {
        /// The command to send.
        command: Option<CommandRef>,
    };
    /// The turn was ended.
    Interrupted = "SessionInterruptedEvent" {};
    /// The owner or the budget suspends.
    PauseRequested = "SessionPauseRequestedEvent" {
        /// The command to send.
        command: Option<CommandRef>,
    };
    /// Suspended.
    Paused = "SessionPausedEvent" {};
    /// The owner goes on.
    ResumeRequested = "SessionResumeRequestedEvent" {
        /// The command to send; none while the session is hibernated.
        command: Option<CommandRef>,
    };
    /// Going on.
    Resumed = "SessionResumedEvent" {};
    /// The process was stopped before the session resumed.
    ResumeAbandoned = "SessionResumeAbandonedEvent" {};
    /// The owner ends the session.
    CancelRequested = "SessionCancelRequestedEvent" {
        /// The command to send; none where there is no sidecar.
        command: Option<CommandRef>,
    };
    /// A cancellation waits for another request to resolve (ruling 16).
    CancelAccepted = "SessionCancelAcceptedEvent" {};
    /// Ended by its owner.
    Cancelled = "SessionCancelledEvent" {};
    /// Output waits for review.
    OutputReady = "AgentSessionOutputReadyEvent" {
        /// Its id.
        output_id: OutputId,
        /// Files changed.
        files_changed: u32,
        /// Tests added.
        tests_added: u32,
        /// Whether all tests pass.
        all_tests_passing: bool,
    };
    /// The output was approved.
    Approved = "AgentSessionApprovedEvent" {
        /// Which output.
        output_id: OutputId,
        /// The commit that holds it.
        commit_sha: Option<CommitSha>,
    };
    /// The session was closed without output.
    Closed = "AgentSessionClosedEvent" {};
    /// The output was rejected.
    Rejected = "AgentSessionRejectedEvent" {
        /// Which output.
        output_id: OutputId,
        /// Why.
        reason: Option<Feedback>,
    };
    /// The session failed.
    Failed = "AgentSessionFailedEvent" {
        /// Why.
        failure_reason: FailureReason,
        /// A sentence for a person.
        message: Option<String>,
    };
    /// The owner tries again.
    Retried = "AgentSessionRetriedEvent" {
        /// How often, this time included.
        retry_count: u32,
        /// What the agent is told.
        additional_instruction: Option<Feedback>,
    };
    /// A turn ended, and its criteria are to be checked (ruling 36).
    ValidationRequested = "SessionValidationRequestedEvent" {
        /// The command to send.
        command: CommandRef,
    };
    /// All criteria are met.
    ValidationPassed = "SessionValidationPassedEvent" {};
    /// Criteria are not met, and the session goes on by itself.
    ValidationFailed = "SessionValidationFailedEvent" {
        /// Which, and why.
        reason: String,
        /// How often it goes on by itself, this time included.
        continuation: u32,
        /// How often it may.
        max_continuations: u32,
    };
    /// A validation was given up, as somebody else had the word.
    ValidationAbandoned = "SessionValidationAbandonedEvent" {
        /// Who.
        reason: String,
    };
    /// The session does not go on by itself any more although its criteria are not met; its owner is to look at it.
    AutoContinueStopped = "SessionAutoContinueStoppedEvent" {
        /// Why not.
        cause: AutoContinueEnd,
        /// What is not met, or what went wrong.
        reason: Option<String>,
        /// How often it went on.
        continuations: u32,
    };
    /// The sidecar never had an answer or a decision: it goes to the agent as a message (rulings 12, 26).
    AnswerReturned = "SessionAnswerReturnedEvent" {
        /// The request that it answers.
        request_id: ToolCallId,
    };
    /// Nothing was heard of the session for its idle time: its sidecar is stopped (ruling 22).
    HibernationOrdered = "SessionHibernationOrderedEvent" {
        /// For how many seconds.
        idle_seconds: u64,
    };
    /// Spend reached the warning threshold.
    BudgetWarning = "SessionBudgetWarningEvent" {
        /// Spent.
        spent_usd: Usd,
        /// Of this.
        cap_usd: Usd,
        /// In percent.
        percent_used: String,
    };
    /// Spend reached the cap, or the next model call could pass it (ruling 32).
    BudgetExhausted = "SessionBudgetExhaustedEvent" {
        /// Spent.
        spent_usd: Usd,
        /// Of this.
        cap_usd: Usd,
        /// The worst case of the call that the agent holds before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        needed_usd: Option<Usd>,
    };
    /// The cap was changed.
    BudgetChanged = "SessionBudgetChangedEvent" {
        /// Now this much.
        cap_usd: Usd,
    };
    /// The run may spend more or less than it was told before (ruling 32).
    AllowanceChanged = "SessionAllowanceChangedEvent" {
        /// From its beginning on.
        allowance_usd: Usd,
        /// The command to send.
        command: CommandRef,
    };
    /// The plan that pays for the agent is used up (ruling 39).
    QuotaExceeded = "SessionQuotaExceededEvent" {
        /// The runtime's own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// When it can be used again, where the runtime said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reset_at: Option<Timestamp>,
    };
    /// The time has come at which the plan can be used again.
    QuotaReset = "SessionQuotaResetEvent" {};
    /// The owner changes how the agent works (S1 5).
    AdjustmentRequested = "SessionAdjustmentRequestedEvent" {
        /// What changes.
        adjustment: Adjustment,
        /// The command to send; none where there is no sidecar: the next one begins with it, or is asked then.
        command: Option<CommandRef>,
    };
    /// The change is made.
    Adjusted = "SessionAdjustedEvent" {
        /// What changed.
        adjustment: Adjustment,
    };
    /// The change is not made.
    AdjustmentAbandoned = "SessionAdjustmentAbandonedEvent" {
        /// What was to change.
        adjustment: Adjustment,
        /// Why not.
        reason: String,
    };
    /// The agent works with another model or thinking level, as it tells itself.
    AgentSettingsChanged = "SessionAgentSettingsChangedEvent" {
        /// The model.
        model_id: String,
        /// How deeply it thinks, where the adapter knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        thinking_level: Option<ThinkingLevel>,
    };
    /// The agent's deliverables changed (S4).
    DeliverablesChanged = "SessionDeliverablesChangedEvent" {
        /// Not begun, or reset.
        pending: u32,
        /// All acceptance criteria are verified.
        passed: u32,
        /// Something outside prevents it.
        blocked: u32,
    };
    /// The context window passed its warning threshold.
    ContextNearingLimit = "ContextNearingLimitEvent" {
        /// How full, in percent.
        usage_percent: String,
        /// The most tokens that it takes, when known.
        model_context_limit: Option<u64>,
    };
    /// The context window is full.
    ContextExhausted = "ContextExhaustedEvent" {
        /// The chain that it was part of before; none: its chain begins now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain_id: Option<SessionChainId>,
    };
    /// The agent hands over by itself.
    VoluntaryHandoff = "SessionVoluntaryHandoffEvent" {
        /// Why.
        reason: String,
        /// The chain that it was part of before; none: its chain begins now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chain_id: Option<SessionChainId>,
    };
    /// The document for the continuation is there.
    HandoffDocumentRecorded = "SessionHandoffDocumentRecordedEvent" {
        /// Which; none in entries of before chains.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        handoff_document_id: Option<HandoffDocumentId>,
    };
    /// What waited goes on in another session: the work and its messages (ruling 30).
    WorkHandedOn = "SessionWorkHandedOnEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// The session that goes on.
        continuation: AgentSessionId,
        /// The messages that it has from now on.
        message_ids: Vec<MessageId>,
    };
    /// The session goes on with the work of another.
    WorkTakenUp = "SessionWorkTakenUpEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// The session before it.
        from_session_id: AgentSessionId,
        /// Its place in the chain, from 1.
        position: u32,
        /// The messages that it has from it.
        message_ids: Vec<MessageId>,
    };
    /// A session that others went on from was told of more spend (ruling 33).
    LateSpend = "SessionLateSpendEvent" {
        /// What it spent itself, all in all.
        total_cost_usd: Usd,
    };
    /// What the sessions before this one spent was counted anew (ruling 33).
    ChainSpendCounted = "SessionChainSpendCountedEvent" {
        /// What they spent together.
        carried_usd: Usd,
    };
    /// A chain begins (S0 8.6).
    ChainCreated = "SessionChainCreatedEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// What its first session was to do.
        original_objective: String,
        /// Its first session.
        first_session_id: AgentSessionId,
    };
    /// A session of a chain hands over: its document is there (S0 8.6).
    HandoffInitiated = "SessionHandoffInitiatedEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// The session that hands over.
        from_session_id: AgentSessionId,
        /// Its document.
        handoff_document_id: HandoffDocumentId,
        /// Whether the document was put together from what was recorded.
        synthesized: bool,
    };
    /// A session was attached to a chain (S0 8.6).
    AddedToChain = "SessionAddedToChainEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// The session.
        new_session_id: AgentSessionId,
        /// Its place, from 1.
        position: u32,
    };
    /// A chain is done (S0 8.6).
    ChainCompleted = "SessionChainCompletedEvent" {
        /// The chain.
        chain_id: SessionChainId,
        /// Its sessions.
        total_sessions: usize,
        /// What they spent together.
        total_cost_usd: Usd,
    };
    /// A chain was cancelled (S0 8.6).
    ChainCancelled = "SessionChainCancelledEvent" {
        /// The chain.
        chain_id: SessionChainId,
    };
    /// The agent asks and waits.
    WaitingForInput = "SessionWaitingForInputEvent" {
        /// The request; answers name it.
        request_id: ToolCallId,
        /// What it asks.
        questions: Vec<Question>,
        /// When the answer is overdue.
        expires_at: Timestamp,
    };
    /// The owner answered.
    InputReceived = "SessionInputReceivedEvent" {
        /// The request.
        request_id: ToolCallId,
        /// The answers.
        answers: Vec<Answer>,
        /// Whether nobody answered and the default stands in.
        by_default: bool,
        /// The command to send; none where the answer goes as a message.
        command: Option<CommandRef>,
    };
    /// A request of the agent was closed without an answer from its owner.
    RequestClosed = "SessionRequestClosedEvent" {
        /// The request.
        request_id: ToolCallId,
    };
    /// The agent entered plan mode.
    PlanCreated = "SessionPlanCreatedEvent" {};
    /// The agent showed its plan.
    PlanPendingApproval = "SessionPlanPendingApprovalEvent" {
        /// The request; decisions name it.
        request_id: ToolCallId,
        /// Whether it waits for the decision.
        requires_approval: bool,
        /// Which revision of the plan.
        version: u32,
    };
    /// The plan was approved.
    PlanApproved = "SessionPlanApprovedEvent" {
        /// The request.
        request_id: ToolCallId,
        /// The command to send.
        command: Option<CommandRef>,
    };
    /// The plan was rejected.
    PlanRejected = "SessionPlanRejectedEvent" {
        /// The request.
        request_id: ToolCallId,
        /// What to change.
        feedback: Feedback,
        /// The command to send.
        command: Option<CommandRef>,
    };
    /// The agent replaced its task list.
    TaskListUpdated = "SessionTaskListUpdatedEvent" {
        /// Tasks.
        task_count: usize,
        /// Of which done.
        completed_count: usize,
    };
    /// Usage was counted.
    MetricsUpdated = "SessionMetricsUpdatedEvent" {
        /// Spent so far.
        total_cost_usd: Usd,
        /// How full the context window is, in percent, when known.
        context_window_usage_percent: Option<String>,
        /// Turns so far.
        turn_count: u32,
    };
    /// A message of the conversation was recorded.
    MessageRecorded = "AgentMessageRecordedEvent" {
        /// The subagent that said it.
        sub_agent_id: Option<SubAgentId>,
    };
    /// A tool was called.
    ToolCallStarted = "ToolCallStartedEvent" {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool.
        tool_name: String,
        /// The subagent that called it.
        sub_agent_id: Option<SubAgentId>,
    };
    /// A tool gave its result.
    ToolCallCompleted = "ToolCallCompletedEvent" {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool, when its call was seen.
        tool_name: Option<String>,
        /// How it went.
        status: ToolCallStatus,
        /// The subagent that called it.
        sub_agent_id: Option<SubAgentId>,
    };
    /// A subagent began.
    SubAgentStarted = "SubAgentSessionStartedEvent" {
        /// Which.
        sub_agent_id: SubAgentId,
        /// Its model, when known.
        model_id: Option<String>,
    };
    /// A subagent ended.
    SubAgentCompleted = "SubAgentSessionCompletedEvent" {
        /// Which.
        sub_agent_id: SubAgentId,
    };
    /// A subagent failed.
    SubAgentFailed = "SubAgentSessionFailedEvent" {
        /// Which.
        sub_agent_id: SubAgentId,
        /// Why.
        failure_reason: FailureReason,
    };
    /// A message was put in the queue.
    MessageEnqueued = "MessageEnqueuedEvent" {
        /// Which.
        message_id: MessageId,
        /// How urgent.
        priority: MessagePriority,
        /// From whom.
        source: MessageSource,
        /// What it says.
        content: MessageContent,
    };
    /// A pending message was edited.
    MessageEdited = "MessageEditedEvent" {
        /// Which.
        message_id: MessageId,
        /// What it says now.
        content: MessageContent,
    };
    /// A pending message was moved.
    MessageMoved = "MessageMovedEvent" {
        /// Which.
        message_id: MessageId,
    };
    /// A message was sent to the sidecar.
    MessageDispatched = "MessageDispatchedEvent" {
        /// Which.
        message_id: MessageId,
        /// The command to send.
        command: CommandRef,
    };
    /// The agent has a message.
    MessageDelivered = "MessageDeliveredEvent" {
        /// Which.
        message_id: MessageId,
        /// Who says it.
        source: MessageSource,
        /// What it says.
        content: MessageContent,
        /// When.
        delivered_at: Timestamp,
    };
    /// Nobody knows whether the agent got a message (ruling 30).
    MessageUncertain = "MessageDeliveryUncertainEvent" {
        /// Which.
        message_id: MessageId,
    };
    /// A message that was sent and not taken is pending again.
    MessageReturned = "MessageReturnedEvent" {
        /// Which.
        message_id: MessageId,
        /// Why.
        reason: String,
    };
    /// A message was cancelled.
    MessageCancelled = "MessageCancelledEvent" {
        /// Which.
        message_id: MessageId,
        /// Why, where its owner did not ask for it: `turn-over`, `session-ended`.
        reason: Option<String>,
    };
    /// A queued message became immediate.
    MessagePromoted = "MessagePromotedToImmediateEvent" {
        /// Which.
        message_id: MessageId,
    };
    /// Messages are held until the owner acts (ruling 29).
    MessagesHeld = "MessagesHeldEvent" {};
    /// The owner lifted the hold.
    MessagesReleased = "MessagesReleasedEvent" {};
    /// A run was minted and is to be launched (ruling 7).
    RunRequested = "SessionRunRequestedEvent" {
        /// The run.
        run_id: RunId,
        /// Counts the session's runs from 1.
        ordinal: u32,
        /// What for.
        cause: RunCause,
    };
    /// A run needs a slot of the pool first.
    SlotWanted = "SessionSlotWantedEvent" {
        /// What for.
        cause: RunCause,
    };
    /// The sidecar of a run is up; the agent is told to begin.
    RunReady = "SessionRunReadyEvent" {
        /// The command to send.
        command: CommandRef,
    };
    /// A run is to end.
    RunStopOrdered = "SessionRunStopOrderedEvent" {
        /// The run; and the `stop` command for the graceful way.
        command: CommandRef,
        /// How.
        mode: StopMode,
    };
    /// A run is over and its process gone.
    RunEnded = "SessionRunEndedEvent" {
        /// The run.
        run_id: RunId,
        /// The session's status after it.
        status: AgentSessionStatus,
        /// Why it ended, for a person.
        detail: Option<String>,
    };
    /// A command was not acknowledged and is sent once more (ruling 12).
    CommandReissued = "SessionCommandReissuedEvent" {
        /// What it asks.
        kind: LifecycleCommand,
        /// The command to send.
        command: CommandRef,
    };
    /// A pause or resume takes long (ruling 12).
    CommandLate = "SessionCommandLateEvent" {
        /// What was asked.
        kind: LifecycleCommand,
    };
    /// The sidecar will not carry out a command.
    CommandRefused = "SessionCommandRefusedEvent" {
        /// The command.
        command_id: CommandId,
        /// A stable code.
        code: String,
        /// A sentence for a person.
        message: String,
    };
    /// The agent acted after it had been stopped (ruling 15).
    AfterStopActivity = "SessionAfterStopActivityEvent" {
        /// What it did.
        what: String,
    };
    /// Envelopes are missing and asked for (ruling 9).
    ReplayRequested = "SessionReplayRequestedEvent" {
        /// The command to send.
        command: CommandRef,
        /// The first missing sequence.
        from_sequence: u64,
        /// The last one.
        to_sequence: u64,
    };
    /// Envelopes are lost (ruling 9).
    EventsLost = "SessionEventsLostEvent" {
        /// The first lost sequence.
        from_sequence: u64,
        /// The last one.
        to_sequence: u64,
    };
    /// A fact that had waited for a request changed nothing when its turn came (ruling 17).
    FactIgnored = "SessionFactIgnoredEvent" {
        /// What it was.
        fact: String,
        /// Why it changed nothing.
        reason: String,
    };
    /// An authentic envelope could not be read and was set aside.
    EventQuarantined = "SessionEventQuarantinedEvent" {
        /// What is wrong with it.
        errors: Vec<String>,
    };
    /// An event that could not be applied in its turn, and was set aside, is applied late: an operator had it sent again
    /// (ruling 9). What follows from it stands in the same entry.
    EventRedriven = "SessionEventRedrivenEvent" {
        /// Its place in its run.
        sequence: u64,
    };
    /// A slot of the pool was taken.
    SlotAllocated = "SessionAllocatedEvent" {
        /// Slots in use.
        active_count: usize,
        /// Slots there are.
        max_count: u32,
    };
    /// A slot of the pool was freed.
    SlotReleased = "SessionReleasedEvent" {
        /// Slots in use.
        active_count: usize,
        /// Slots there are.
        max_count: u32,
    };
    /// No slot was free; the session waits in line.
    PoolExhausted = "SessionPoolExhaustedEvent" {
        /// Slots in use.
        current_count: usize,
        /// Slots there are.
        max_count: u32,
    };
    /// The number of slots was changed.
    PoolConfigured = "SessionPoolConfiguredEvent" {
        /// Slots there are now.
        max_count: u32,
        /// A session that waits, to be handed a slot.
        next: Option<AgentSessionId>,
    };
    /// A template was made.
    TemplateCreated = "AgentTemplateCreatedEvent" {
        /// Its name.
        name: String,
    };
    /// A template was changed.
    TemplateUpdated = "AgentTemplateUpdatedEvent" {
        /// What of it.
        part: TemplateSection,
    };
    /// No session starts from a template any more.
    TemplateDeactivated = "AgentTemplateDeactivatedEvent" {};
    /// Sessions start from a template again.
    TemplateActivated = "AgentTemplateActivatedEvent" {};
    /// A template's schedule started a session.
    TemplateScheduleRan = "AgentTemplateScheduleRanEvent" {
        /// The time that the schedule named.
        scheduled_for: Timestamp,
        /// The session.
        session_id: AgentSessionId,
        /// When it is due next.
        next_run_at: Option<Timestamp>,
    };
    /// A time that a template's schedule named started nothing.
    TemplateScheduleSkipped = "AgentTemplateScheduleSkippedEvent" {
        /// The time.
        scheduled_for: Timestamp,
        /// Why.
        reason: ScheduleSkip,
        /// When it is due next.
        next_run_at: Option<Timestamp>,
    };
    /// A session was started for an event from outside.
    EventClassified = "AgentSessionEventClassifiedEvent" {
        /// The rule of the session's template that fitted.
        rule_id: ClassificationRuleId,
        /// What the event is.
        classified_as: String,
    };
    /// The agent created a task through its API (AG-012).
    ApiTaskCreated = "AgentApiTaskCreatedEvent" {
        /// The task.
        created_task_id: AgentTaskId,
        /// What is to be done.
        #[serde(flatten)]
        task: NewAgentTask,
        /// Who created it.
        source: AgentTaskSource,
    };
    /// The agent recorded what it learned about people or communication (AG-014).
    LearningRecorded = "AgentLearningRecordedEvent" {
        /// The learning.
        learning_id: AgentLearningId,
        /// What was learned.
        #[serde(flatten)]
        learning: NewAgentLearning,
    };
    /// The agent logged a decision (S0 8.7).
    DecisionLogged = "AgentDecisionLoggedEvent" {
        /// What it decided.
        content: String,
    };
    /// A skill is loaded into the session.
    SessionSkillEnabled = "SessionSkillEnabledEvent" {
        /// Which.
        skill_id: AgentSkillId,
    };
    /// A skill is taken out of the session.
    SessionSkillDisabled = "SessionSkillDisabledEvent" {
        /// Which.
        skill_id: AgentSkillId,
    };
    /// The sidecar is to take a new configuration.
    ReloadRequested = "SessionReloadRequestedEvent" {
        /// The command to send; none where there is no sidecar: the next one starts with it.
        command: Option<CommandRef>,
    };
    /// The new configuration is in force.
    Reloaded = "SessionReloadedEvent" {};
    /// A skill was created.
    SkillCreated = "AgentSkillCreatedEvent" {
        /// Its name.
        name: SkillName,
    };
    /// A skill's name, description, tools or subagents changed.
    SkillUpdated = "AgentSkillUpdatedEvent" {};
    /// A skill's instructions changed.
    SkillInstructionsUpdated = "AgentSkillInstructionsUpdatedEvent" {
        /// Its version now.
        new_version: u32,
    };
    /// No session is given the skill any more.
    SkillDeactivated = "AgentSkillDeactivatedEvent" {};
    /// Sessions may be given the skill again.
    SkillActivated = "AgentSkillActivatedEvent" {};
    /// An agent learned something. Stands in the journals of the skill and of the session.
    MemoryPillRecorded = "MemoryPillRecordedEvent" {
        /// The skill that keeps it.
        skill_id: AgentSkillId,
        /// The pill.
        pill_id: MemoryPillId,
        /// The session that recorded it.
        session_id: AgentSessionId,
        /// What kind of learning it is.
        category: MemoryPillCategory,
    };
    /// A pill was discarded.
    MemoryPillDismissed = "MemoryPillDismissedEvent" {
        /// The pill.
        pill_id: MemoryPillId,
    };
    /// A session began to fold the pills of a skill into its instructions.
    SkillConsolidationStarted = "SkillConsolidationStartedEvent" {
        /// The session.
        session_id: AgentSessionId,
        /// Pills that it was given.
        pill_count: usize,
    };
    /// The agent of a consolidation proposes new instructions.
    SkillConsolidationProposed = "SkillConsolidationProposedEvent" {
        /// The session.
        session_id: AgentSessionId,
        /// Pills that the new instructions hold.
        pill_count: usize,
    };
    /// A consolidation ended and changed nothing.
    SkillConsolidationAbandoned = "SkillConsolidationAbandonedEvent" {
        /// The session.
        session_id: AgentSessionId,
        /// Why.
        reason: String,
    };
    /// Pills were folded into a skill's instructions.
    SkillConsolidated = "SkillConsolidatedEvent" {
        /// Its version now.
        new_version: u32,
        /// Pills.
        consolidated_pill_count: usize,
    };
}

/// The events of one change, in the order in which they happened.
pub type Events = Vec<DomainEvent>;
