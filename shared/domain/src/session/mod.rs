//! The `AgentSession` aggregate (S0 8.4).
//!
//! | file | what it holds |
//! |---|---|
//! | [`status`] | the statuses and the one transition table |
//! | `lifecycle` | start, interrupt, pause, resume, cancel, fail, retry, close, approve, reject |
//! | `turn` | turns, output, the end of the agent's conversation, context |
//! | `request` | questions and plans |
//! | `validation` | going on by itself |
//! | `hibernation` | sleeping when nothing happens |
//! | `metering` | usage and budget |
//! | [`run`] | runs and the order of their envelopes |
//! | `liveness` | deadlines, dead processes, activity after a stop |
//! | `handoff` | the document, the chain, what a continuation takes over |
//! | [`fact`] | what an agent tells |
//! | `skills` | skills, and hot loading |
//! | `adjust` | model, thinking level, compaction, fork, and what a run may spend |
//! | `quota` | plans that are used up, and calls that the budget does not cover |
//! | `deliverables` | where the deliverables stand |
//! | [`subagent`] | the `SubAgentSession` entity |

mod adjust;
mod deliverables;
mod error;
pub mod fact;
mod handoff;
mod hibernation;
mod lifecycle;
mod liveness;
mod metering;
mod quota;
mod request;
pub mod run;
mod skills;
pub mod status;
pub mod subagent;
mod turn;
mod validation;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use adjust::PendingAdjustment;
pub use deliverables::RecordedDeliverables;
pub use error::SessionError;
pub use fact::{AgentFact, MeterTotals, UsageReport};
pub use handoff::Continues;
pub use lifecycle::{NewSession, Opening};
pub use liveness::{Due, ProcessState};
pub use quota::{PausedReason, Quota};
pub(crate) use request::UnheardAnswer;
pub use request::{Decision, PendingRequest, RequestKind};
pub use run::{Arrival, Gap, Inbox, PastRun, Run, RunCause, RunPhase, Sender};
pub use status::{AgentSessionStatus, Operation};
pub use subagent::{SubAgentSession, SubAgentStatus};

use crate::text::{AdapterName, Feedback, ModelId, Objective, SessionName, WorkingDirectory};
use crate::value::{
    AgentSettings, AutoContinueConfig, Capabilities, ContextPolicy, ExecutionMode, FailureReason,
    RecordedHandoff, SessionBudget, SessionMetrics, SessionOutcome, SessionOutput, SessionPlan,
    SessionTaskList, ThinkingLevel,
};
use crate::{
    AgentSessionId, AgentSkillId, AgentTemplateId, CommandId, CommandRef, MessageId, Occasion, OutputId,
    RunId, SessionChainId, Timestamp, ToolCallId, TurnId, Usd, UserId,
};

/// A session of an agent: its lifecycle, its money, its requests and its runs.
///
/// Every change goes through a method. Methods that can be refused return a [`SessionError`] and then have changed
/// nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)] // facts of their own; what excludes each other is the state
pub struct AgentSession {
    id: AgentSessionId,
    owner_id: UserId,
    template_id: Option<AgentTemplateId>,
    chain_id: Option<SessionChainId>,
    name: SessionName,
    working_directory: WorkingDirectory,
    objective: Objective,
    model_id: ModelId,
    enabled_skill_ids: Vec<AgentSkillId>,
    execution_mode: ExecutionMode,
    settings: SessionSettings,

    state: State,
    hibernated: bool,
    budget: SessionBudget,
    metrics: SessionMetrics,
    meters: BTreeMap<String, MeterTotals>,
    auto_continue: Option<AutoContinueConfig>,
    task_list: Option<SessionTaskList>,
    plan: Option<SessionPlan>,
    api_key_hash: Option<String>,
    output: Option<RecordedOutput>,
    has_pending_review: bool,
    staged_output: Option<SessionOutput>,
    retry_count: u32,
    retry: Option<RetryOrder>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    created_at: Timestamp,
    pub(crate) updated_at: Timestamp,

    run: Option<Run>,
    runs: u32,
    past_runs: Vec<PastRun>,
    pub(crate) slot_wanted: Option<RunCause>,
    turn: Option<Turn>,
    pending_requests: Vec<PendingRequest>,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) deferred: Vec<AgentFact>,
    pub(crate) cancel_accepted: bool,
    after_stop: Option<AfterStop>,
    #[serde(default)]
    fruitless_runs: u8,
    #[serde(default)]
    pub(crate) reload: Option<Outstanding>,
    #[serde(default)]
    config_changed: bool,
    #[serde(default)]
    consolidates: Option<AgentSkillId>,
    pub(crate) open_tool_calls: BTreeMap<ToolCallId, OpenToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    between_turns: Option<validation::BetweenTurns>,
    /// Answers and decisions that the sidecar does not have yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unheard_answers: Vec<UnheardAnswer>,

    /// Changes of how the agent works that are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending_adjustments: Vec<PendingAdjustment>,
    /// What the agent works with, as it told last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agent_settings: Option<AgentSettings>,
    /// Its owner cycled through the models: the session's model is the one that its agent tells.
    #[serde(default)]
    model_follows: bool,
    /// The plan that pays for the agent is used up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota: Option<Quota>,
    /// How its last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_outcome: Option<SessionOutcome>,
    /// Where its deliverables stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliverables: Option<RecordedDeliverables>,

    /// The document that it leaves to whoever goes on.
    #[serde(default)]
    handoff_document: Option<RecordedHandoff>,
    /// Until when its agent may write that document, once its context is full.
    #[serde(default)]
    document_awaited_until: Option<Timestamp>,
    /// What it took over from the session before it.
    #[serde(default)]
    continues: Option<Continues>,
    /// The session that goes on with its work.
    #[serde(default)]
    continuation: Option<AgentSessionId>,

    control_version: u64,
    pub(crate) journal_sequence: u64,
}

/// Where the session stands, with what belongs to that status alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all_fields = "camelCase")]
pub(crate) enum State {
    Queued,
    Running,
    Interrupting { outstanding: Outstanding },
    Interrupted,
    Pausing { outstanding: Outstanding },
    Paused,
    Resuming { outstanding: Outstanding },
    Cancelling { outstanding: Outstanding },
    Cancelled,
    WaitingForInput,
    WaitingForApproval,
    Idle,
    ContextExhausted,
    Completed,
    Failed { failure: Failure },
}

impl State {
    pub(crate) const fn status(&self) -> AgentSessionStatus {
        use AgentSessionStatus as S;
        match self {
            Self::Queued => S::Queued,
            Self::Running => S::Running,
            Self::Interrupting { .. } => S::Interrupting,
            Self::Interrupted => S::Interrupted,
            Self::Pausing { .. } => S::Pausing,
            Self::Paused => S::Paused,
            Self::Resuming { .. } => S::Resuming,
            Self::Cancelling { .. } => S::Cancelling,
            Self::Cancelled => S::Cancelled,
            Self::WaitingForInput => S::WaitingForInput,
            Self::WaitingForApproval => S::WaitingForApproval,
            Self::Idle => S::Idle,
            Self::ContextExhausted => S::ContextExhausted,
            Self::Completed => S::Completed,
            Self::Failed { .. } => S::Failed,
        }
    }

    pub(crate) const fn outstanding(&self) -> Option<&Outstanding> {
        match self {
            Self::Interrupting { outstanding }
            | Self::Pausing { outstanding }
            | Self::Resuming { outstanding }
            | Self::Cancelling { outstanding } => Some(outstanding),
            _ => None,
        }
    }

    pub(crate) const fn outstanding_mut(&mut self) -> Option<&mut Outstanding> {
        match self {
            Self::Interrupting { outstanding }
            | Self::Pausing { outstanding }
            | Self::Resuming { outstanding }
            | Self::Cancelling { outstanding } => Some(outstanding),
            _ => None,
        }
    }
}

/// The commands of the two-phase lifecycle (S3), and the reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LifecycleCommand {
    /// `interrupt`
    Interrupt,
    /// `pause`
    Pause,
    /// `resume`
    Resume,
    /// `stop`
    Stop,
    /// `reload_config`
    Reload,
    /// `begin`
    Begin,
    /// `answer` and `plan_decision`
    Answer,
    /// `run_validation`
    Validate,
    /// `adjust`
    Adjust,
}

/// A command whose acknowledgement is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Outstanding {
    /// The command.
    pub command_id: CommandId,
    /// Counts its sendings from 1; 0 while it waits for a run to be up.
    pub attempt: u8,
    /// When it was last sent.
    pub sent_at: Timestamp,
    /// When the sidecar had it in its spool.
    pub received_at: Option<Timestamp>,
    /// Whether the owner was told that it takes long.
    pub late: bool,
}

/// Why a session failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The kind.
    pub reason: FailureReason,
    /// A sentence for a person.
    pub message: Option<String>,
}

/// Output with its id (ruling 18).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RecordedOutput {
    /// Approval and rejection name it.
    pub output_id: OutputId,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What it is.
    #[serde(flatten)]
    pub output: SessionOutput,
}

/// What the next run is told after a retry (ruling 24).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RetryOrder {
    pub(crate) instruction: Option<Feedback>,
    pub(crate) fresh: bool,
}

/// The turn under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// When it began.
    pub started_at: Timestamp,
}

/// A message that was sent and is not yet with the agent (ruling 29).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InFlight {
    pub(crate) message_id: MessageId,
    pub(crate) run_id: RunId,
    pub(crate) command_id: CommandId,
    pub(crate) step: InFlightStep,
    /// Counts its sendings from 1.
    pub(crate) attempt: u8,
    pub(crate) sent_at: Timestamp,
    /// Whether the sidecar has it in its spool.
    pub(crate) received: bool,
}

/// How far a sent message got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InFlightStep {
    Sent,
    Injecting,
    Injected,
}

/// A stopped agent that acted (ruling 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AfterStop {
    /// The command was sent once more.
    Reasserted,
    /// The process is being stopped.
    Killed,
}

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpenToolCall {
    /// The tool.
    pub name: String,
    /// The journal entry of the call; its result is listed beside it.
    pub journal_sequence: u64,
}

/// Fields of a session that S0 leaves to template and infrastructure, with documented defaults (ruling 20).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSettings {
    /// The adapter that drives the agent. Default: `script`.
    pub adapter: AdapterName,
    /// What the adapter alone understands. Default: nothing.
    pub adapter_options: serde_json::Value,
    /// Tools that the agent may use. Default: the adapter's own.
    pub allowed_tools: Vec<String>,
    /// Labels for the owner's own order; at most 20. Default: none.
    pub labels: BTreeMap<String, String>,
    /// Whether leaving plan mode waits for the owner. Default: yes.
    pub plan_approval_required: bool,
    /// Seconds that a question or plan may wait (ruling 26). Default: 24 hours.
    pub request_timeout_seconds: u64,
    /// The answer that stands in when nobody answers in time. Default: none, the session fails.
    pub default_answer: Option<String>,
    /// How full the context window may get before a warning, in percent. Default: 85.
    pub context_warn_at_percent: u8,
    /// What is done when the context window fills up (ruling 35). Default: the work is handed over.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// How often a failed session may be retried. Default: 3 (S0 8.4).
    pub max_retries: u32,
    /// Seconds after which a session that rests or waits, and of which nothing is heard, hibernates (ruling 22); 0: never.
    /// Default: 15 minutes.
    #[serde(default = "SessionSettings::default_idle_timeout")]
    pub idle_timeout_seconds: u64,
    /// The same for a Paused session. Default: an hour.
    #[serde(default = "SessionSettings::default_paused_timeout")]
    pub paused_timeout_seconds: u64,
    /// How deeply its agent thinks (S1 5). Default: as the adapter has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
}

impl SessionSettings {
    const fn default_idle_timeout() -> u64 {
        15 * 60
    }

    const fn default_paused_timeout() -> u64 {
        60 * 60
    }
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            adapter: AdapterName::script(),
            adapter_options: serde_json::Value::Null,
            allowed_tools: Vec::new(),
            labels: BTreeMap::new(),
            plan_approval_required: true,
            request_timeout_seconds: 24 * 60 * 60,
            default_answer: None,
            context_warn_at_percent: 85,
            context_policy: ContextPolicy::default(),
            max_retries: 3,
            idle_timeout_seconds: Self::default_idle_timeout(),
            paused_timeout_seconds: Self::default_paused_timeout(),
            thinking_level: None,
        }
    }
}

/// Read access.
impl AgentSession {
    /// Its id.
    pub const fn id(&self) -> AgentSessionId {
        self.id
    }

    /// Its owner.
    pub const fn owner_id(&self) -> &UserId {
        &self.owner_id
    }

    /// The template that it was started from.
    pub const fn template_id(&self) -> Option<AgentTemplateId> {
        self.template_id
    }

    /// The chain that it belongs to.
    pub const fn chain_id(&self) -> Option<SessionChainId> {
        self.chain_id
    }

    /// Its name.
    pub const fn name(&self) -> &SessionName {
        &self.name
    }

    /// Where its agent runs.
    pub const fn working_directory(&self) -> &WorkingDirectory {
        &self.working_directory
    }

    /// What its agent is to do.
    pub const fn objective(&self) -> &Objective {
        &self.objective
    }

    /// Its model.
    pub const fn model_id(&self) -> &ModelId {
        &self.model_id
    }

    /// Its skills.
    pub fn enabled_skill_ids(&self) -> &[AgentSkillId] {
        &self.enabled_skill_ids
    }

    /// How it came to run.
    pub const fn execution_mode(&self) -> ExecutionMode {
        self.execution_mode
    }

    /// What S0 leaves open.
    pub const fn settings(&self) -> &SessionSettings {
        &self.settings
    }

    /// Where it stands.
    pub const fn status(&self) -> AgentSessionStatus {
        self.state.status()
    }

    /// Whether its status is kept without a process.
    pub const fn hibernated(&self) -> bool {
        self.hibernated
    }

    /// Whether output waits for its owner.
    pub const fn has_pending_review(&self) -> bool {
        self.has_pending_review
    }

    /// Its money.
    pub const fn budget(&self) -> &SessionBudget {
        &self.budget
    }

    /// What it used.
    pub const fn metrics(&self) -> &SessionMetrics {
        &self.metrics
    }

    /// When it goes on by itself.
    pub const fn auto_continue(&self) -> Option<&AutoContinueConfig> {
        self.auto_continue.as_ref()
    }

    /// Its agent's task list.
    pub const fn task_list(&self) -> Option<&SessionTaskList> {
        self.task_list.as_ref()
    }

    /// Its agent's plan.
    pub const fn plan(&self) -> Option<&SessionPlan> {
        self.plan.as_ref()
    }

    /// SHA-256 of the key that its agent uses, once it has started.
    pub fn api_key_hash(&self) -> Option<&str> {
        self.api_key_hash.as_deref()
    }

    /// What it produced last.
    pub const fn output(&self) -> Option<&RecordedOutput> {
        self.output.as_ref()
    }

    /// How its last turn ended (S4); none before the first.
    pub const fn last_outcome(&self) -> Option<SessionOutcome> {
        self.last_outcome
    }

    /// Why it failed, while it is Failed.
    pub const fn failure(&self) -> Option<&Failure> {
        match &self.state {
            State::Failed { failure } => Some(failure),
            _ => None,
        }
    }

    /// How often it was retried.
    pub const fn retry_count(&self) -> u32 {
        self.retry_count
    }

    /// When its agent began.
    pub const fn started_at(&self) -> Option<Timestamp> {
        self.started_at
    }

    /// When it ended.
    pub const fn completed_at(&self) -> Option<Timestamp> {
        self.completed_at
    }

    /// When it was created.
    pub const fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// When it last changed.
    pub const fn updated_at(&self) -> Timestamp {
        self.updated_at
    }

    /// Its current run.
    pub const fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Runs that are over; the latest few.
    pub fn past_runs(&self) -> &[PastRun] {
        &self.past_runs
    }

    /// What a run is wanted for while there is none. Nothing is while a Queued session has nothing left to spend.
    pub fn slot_wanted(&self) -> Option<RunCause> {
        self.slot_wanted.filter(|_| !self.waits_for_budget())
    }

    /// The turn under way.
    pub const fn turn(&self) -> Option<&Turn> {
        self.turn.as_ref()
    }

    /// Open questions and plans, oldest first.
    pub fn pending_requests(&self) -> &[PendingRequest] {
        &self.pending_requests
    }

    /// The command whose acknowledgement is awaited.
    pub const fn outstanding(&self) -> Option<&Outstanding> {
        self.state.outstanding()
    }

    /// Whether a cancellation waits for another request to resolve.
    pub const fn cancel_accepted(&self) -> bool {
        self.cancel_accepted
    }

    /// The journal entry of a tool call without a result.
    pub fn open_tool_call(&self, call: &ToolCallId) -> Option<&OpenToolCall> {
        self.open_tool_calls.get(call)
    }

    /// Counts what its owner decides by: neither usage nor messages nor heartbeats move it (ruling 16).
    pub const fn control_version(&self) -> u64 {
        self.control_version
    }

    /// The sequence of its latest journal entry; 0 before the first.
    pub const fn journal_sequence(&self) -> u64 {
        self.journal_sequence
    }

    /// What the adapter of the current run can do; nothing is assumed before it said so.
    pub fn capabilities(&self) -> Option<Capabilities> {
        self.run.as_ref().and_then(|run| run.capabilities)
    }

    /// The most dollars that the current run may spend from its beginning on (ruling 32): the cap without what was spent
    /// by others, by earlier runs and earlier sessions of the chain.
    pub fn allowance_usd(&self) -> Option<Usd> {
        let others = self.budget.account_usd().excess_over(self.run.as_ref()?.spent_usd);
        Some(self.budget.hard_cap_usd().excess_over(others))
    }

    /// The sidecar of the current run is up and is not being ended.
    pub fn is_live(&self) -> bool {
        matches!(self.run.as_ref().map(|run| run.phase), Some(RunPhase::Live))
    }
}

/// What all methods share.
impl AgentSession {
    /// The most past runs that are remembered.
    const MAX_PAST_RUNS: usize = 8;
    /// Runs in a row that may die over a waiting message without beginning a turn; then the session fails instead of
    /// being woken for ever.
    pub const MAX_FRUITLESS_RUNS: u8 = 3;
    /// The most tool calls that are tracked as open; beyond, the oldest ones are forgotten.
    pub(crate) const MAX_OPEN_TOOL_CALLS: usize = 256;

    /// Takes the next place in the journal.
    pub fn next_journal_sequence(&mut self) -> u64 {
        self.journal_sequence += 1;
        self.journal_sequence
    }

    /// Refuses an operation that does not fit the status.
    pub fn check(&self, operation: Operation) -> Result<AgentSessionStatus, SessionError> {
        let status = self.status();
        let refusal = || match self.continuation {
            Some(continuation) if status == AgentSessionStatus::ContextExhausted => {
                SessionError::Continued { continuation }
            }
            _ => SessionError::InvalidTransition { operation, status },
        };
        operation.next(status).ok_or_else(refusal)
    }

    /// Moves to `state` if the table says so.
    fn transition(&mut self, operation: Operation, state: State) -> Result<(), SessionError> {
        let to = self.check(operation)?;
        debug_assert!(
            to == state.status() || state.status().is_waiting(),
            "{operation:?} leads to {to}, not to {}",
            state.status()
        );
        self.enter(state);
        Ok(())
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.touch_control();
        if !matches!(self.state, State::Interrupted | State::Paused | State::Cancelled) {
            self.after_stop = None;
        }
    }

    /// Something that its owner decides by has changed.
    const fn touch_control(&mut self) {
        self.control_version += 1;
    }

    /// A command for the current run; none where no sidecar is up.
    fn command(&self, cx: &mut Occasion<'_>) -> Option<CommandRef> {
        let run_id = self.run.as_ref().filter(|_| self.is_live())?.id;
        Some(CommandRef { command_id: cx.command_id(), run_id, attempt: 1 })
    }

    fn ensure_no_turn_starting(&self) -> Result<(), SessionError> {
        if self.in_flight.is_empty() { Ok(()) } else { Err(SessionError::TurnStarting) }
    }

    fn ensure_budget(&self) -> Result<(), SessionError> {
        if self.budget.exhausted() {
            Err(SessionError::BudgetExhausted { cap: self.budget.hard_cap_usd() })
        } else {
            Ok(())
        }
    }
}
