//! Sessions in the API.

use std::collections::BTreeMap;

use pilothouse_domain::session::{
    AgentSession, AgentSessionStatus, Failure, PausedReason, PendingRequest, RecordedOutput, RunCause,
    RunPhase, Turn,
};
use pilothouse_domain::value::{
    Adjustment, AgentSettings, AutoContinueConfig, Capabilities, ContextPolicy, ContextWindowSnapshot,
    DeliverableCounts, Disk, ExecutionMode, MessageImage, ProjectMembership, RecordedHandoff, SessionOutcome,
    SessionPlan, SessionTaskList, TokenUsage, UsageByModel,
};
use pilothouse_domain::{
    AgentSessionId, AgentSkillId, AgentTemplateId, BrakeId, OutputId, RunId, SessionChainId, Timestamp, Usd,
    UserId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session in full (S0 8.7 `AgentSessionDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)] // independent yes or no answers
pub struct SessionView {
    /// The id of the session.
    pub id: AgentSessionId,
    /// The owner of the session.
    pub owner_id: UserId,
    /// The template that the session was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<AgentTemplateId>,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    /// The chain that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// The previous session of the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<AgentSessionId>,
    /// The next session of the chain, which continues the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<AgentSessionId>,
    /// The handoff document that the session left for the next session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_document: Option<RecordedHandoff>,
    /// What happens when the context window is nearly full.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// The name of the session.
    pub name: String,
    /// The directory that the agent works in.
    pub working_directory: String,
    /// The objective of the agent.
    pub objective: String,
    /// The images of the objective, without their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<MessageImage>,
    /// The model that the session was started with.
    pub model_id: String,
    /// The adapter that drives the agent.
    pub adapter: String,
    /// The skills that are enabled, in order.
    pub enabled_skill_ids: Vec<AgentSkillId>,
    /// Whether skills were enabled or disabled since the sidecar received its configuration. Reload the session to apply them.
    #[serde(default)]
    pub reload_needed: bool,
    /// Whether the sidecar is applying a new configuration.
    #[serde(default)]
    pub reloading: bool,
    /// The skill whose memory pills the session consolidates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidates_skill_id: Option<AgentSkillId>,
    /// The labels that the owner assigned.
    pub labels: BTreeMap<String, String>,
    /// How the session was started.
    pub execution_mode: ExecutionMode,
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// Whether the session keeps its status without a process. The next message, answer or resume starts one.
    pub hibernated: bool,
    /// Whether the sidecar has been silent for too long. Until it reconnects, messages and budget changes wait, and the deadlines
    /// of the session are suspended.
    #[serde(default)]
    pub unreachable: bool,
    /// Since when the sidecar is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreachable_since: Option<Timestamp>,
    /// Whether an output waits for the owner's decision.
    pub has_pending_review: bool,
    /// Whether the turn has ended and its validation criteria are being checked (decision 36).
    #[serde(default)]
    pub validating: bool,
    /// Why the session is Queued, or waits for a run to wake up: `pool-exhausted`, `launching`, `placement-unavailable` when no available worker can run it,
    /// `braked` when an emergency brake stops it, or `budget-exhausted` when the earlier sessions of its chain spent the whole
    /// budget (decision 33).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_reason: Option<String>,
    /// Whether a cancellation is accepted and waits for another request to resolve.
    pub cancel_accepted: bool,
    /// Why the session is Paused or Pausing: `owner`, `brake`, `budget-exhausted`, `quota-exceeded`, `model-unavailable`, `unmetered`,
    /// `disk-full`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_reason: Option<PausedReason>,
    /// The emergency brakes that hold the session. It resumes when the last one is released.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<BrakeId>,
    /// Set while the plan that pays for the agent is used up (decision 39).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaView>,
    /// The full disk that blocks the session: `server` if the server paused it, `worker` if its worker suspended the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_disk: Option<Disk>,
    /// The settings that the agent reported last, or the initial settings until it has reported any.
    #[serde(default)]
    pub agent_settings: AgentSettings,
    /// The changes of the settings that the agent has not acknowledged, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<AdjustmentView>,
    /// The outcome of the last turn (S4 `SessionOutcome`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<SessionOutcome>,
    /// The number of deliverables in each status. Absent when the agent reported none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliverables: Option<DeliverableCounts>,
    /// The budget and the spend of the session.
    pub budget: BudgetView,
    /// The usage of the session.
    pub metrics: MetricsView,
    /// When the session starts its next turn without the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_continue_config: Option<AutoContinueConfig>,
    /// The agent's task list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_task_list: Option<SessionTaskList>,
    /// The agent's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_plan: Option<SessionPlan>,
    /// The questions and plans that wait for an answer from the owner.
    pub pending_requests: Vec<PendingRequest>,
    /// The latest output of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RecordedOutput>,
    /// Why the session failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<Failure>,
    /// The number of retries so far.
    pub retry_count: u32,
    /// The maximum number of retries.
    pub max_retries: u32,
    /// Seconds without activity after which a session that is idle or waits for the owner hibernates; 0 disables this.
    #[serde(default)]
    pub idle_timeout_seconds: u64,
    /// Seconds without activity after which a Paused session hibernates; 0 disables this.
    #[serde(default)]
    pub paused_timeout_seconds: u64,
    /// The current run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_run: Option<RunView>,
    /// The current turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_turn: Option<Turn>,
    /// When the agent started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session last changed.
    pub updated_at: Timestamp,
    /// The control version; also the `ETag`.
    pub version: u64,
    /// The cursor of the live stream at this state. A stream that is opened with `?after=` this cursor misses nothing.
    pub cursor: String,
}

/// The used-up plan of a session's agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaView {
    /// The message of the agent's runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the session resumes. Absent when the runtime did not report it; the owner then resumes the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
}

/// A change of the agent's settings that is in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdjustmentView {
    /// The change.
    #[serde(flatten)]
    pub adjustment: Adjustment,
    /// Whether the agent takes longer than expected.
    pub late: bool,
}

/// A run of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// The id of the run.
    pub id: RunId,
    /// The number of the run within the session, counted from 1.
    pub ordinal: u32,
    /// Why the run was started.
    pub cause: RunCause,
    /// The phase of the run.
    #[serde(flatten)]
    pub phase: RunPhase,
    /// What the adapter supports. Absent until the sidecar has reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// The budget and the spend of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// The cap in dollars.
    pub hard_cap_usd: Usd,
    /// The percentage of the cap at which the owner is warned.
    pub warn_at_percent: u8,
    /// The number of tokens used.
    pub tokens_used: u64,
    /// The cost of this session in dollars.
    pub estimated_cost_usd: Usd,
    /// The cost of the earlier sessions of the chain in dollars, which counts against the cap (decision 33).
    #[serde(default)]
    pub carried_usd: Usd,
    /// The dollars that remain under the cap.
    pub remaining_usd: Usd,
    /// The spend above the cap in dollars.
    pub overshoot_usd: Usd,
    /// The spend in percent of the cap.
    pub percent_used: String,
    /// Whether spending is stopped: the cap is reached, or the next model call could exceed it (decision 32).
    pub exhausted: bool,
    /// Whether the agent's spend cannot be measured, so that the cap cannot be enforced (decision 32). The session is held unless
    /// `allowUnmetered` is true.
    #[serde(default)]
    pub unmetered: bool,
    /// Whether the owner allows a spend that cannot be measured.
    #[serde(default)]
    pub allow_unmetered: bool,
    /// The most dollars that the current run may spend from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_usd: Option<Usd>,
}

/// The usage of a session (S0 8.5).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsView {
    /// The cost in dollars, including subagents.
    pub total_cost_usd: Usd,
    /// The tokens by model, including subagents.
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// The cost by model in dollars, including subagents. With `unattributedCostUsd` it adds up to the total.
    #[serde(default)]
    pub cost_usd_by_model: BTreeMap<String, Usd>,
    /// The part of the cost that an earlier version recorded without its model. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed_cost_usd: Option<Usd>,
    /// The context window of the main agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<ContextWindowView>,
    /// The number of turns that ended.
    pub turn_count: u32,
    /// When the last turn ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_at: Option<Timestamp>,
}

/// A context window with derived values.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextWindowView {
    /// The snapshot that the agent reported.
    #[serde(flatten)]
    pub snapshot: ContextWindowSnapshot,
    /// The total number of tokens in the window.
    pub total_tokens: u64,
    /// The share of the window in use, in percent.
    pub usage_percent: String,
}

impl From<ContextWindowSnapshot> for ContextWindowView {
    fn from(snapshot: ContextWindowSnapshot) -> Self {
        Self {
            snapshot,
            total_tokens: snapshot.usage.total(),
            usage_percent: snapshot.usage_percent().to_string(),
        }
    }
}

/// The results of a search in the owner's sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSearchResults {
    /// At most 20 sessions: those with most of the words first, then the newest.
    pub items: Vec<SessionHit>,
    /// The words that were searched for.
    pub terms: Vec<String>,
}

/// A session that a search found.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionHit {
    /// The session.
    pub session: SessionSummary,
    /// The number of words of the query that it has.
    pub matched_terms: usize,
}

/// A session in a list or in the history (S0 8.7 `AgentSessionSummaryDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// The id of the session.
    pub id: AgentSessionId,
    /// The name of the session.
    pub name: String,
    /// The status of the session.
    pub status: AgentSessionStatus,
    /// Whether the session keeps its status without a process.
    pub hibernated: bool,
    /// Whether the sidecar has been silent for too long.
    #[serde(default)]
    pub unreachable: bool,
    /// Whether an output waits for the owner's decision.
    pub has_pending_review: bool,
    /// The agent of a project that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectMembership>,
    /// The chain that the session belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// The cost in dollars, including subagents.
    pub total_cost_usd: Usd,
    /// The tokens by model, including subagents. Absent when the session used none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// The cost by model in dollars, including subagents. With `unattributedCostUsd` it adds up to the total.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cost_usd_by_model: BTreeMap<String, Usd>,
    /// The part of the cost that an earlier version recorded without its model. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed_cost_usd: Option<Usd>,
    /// The cap in dollars.
    pub hard_cap_usd: Usd,
    /// The share of the context window in use, in percent, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window_usage_percent: Option<String>,
    /// The number of turns that ended.
    pub turn_count: u32,
    /// Seconds from the start of the session to its end or last change.
    pub elapsed_seconds: u64,
    /// The number of enabled skills.
    pub enabled_skill_count: usize,
    /// The labels that the owner assigned.
    pub labels: BTreeMap<String, String>,
    /// How the session ended: `approved`, `closed`, `cancelled`, `context-exhausted`, or the reason for its failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// When the session was created.
    pub created_at: Timestamp,
    /// When the session ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// A message of the live stream of the sessions and brakes. It has no cursor: list the sessions again after each `caught_up`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum SessionListMessage {
    /// A session as it is now: it is new, or it changed. The same state may be sent more than once.
    Session(Box<SessionSummary>),
    /// The slots of the pool, when a session received or released one. The same counts may be sent more than once.
    Pool(super::pool::PoolCounts),
    /// A brake of the owner was pulled or changed. Read the brakes again.
    Brakes {},
    /// Each change from now on is sent. It is also sent when the client was too slow and missed changes. List the sessions and the brakes.
    CaughtUp {},
}

/// The response to starting a session: the session and its API key, which is shown only once (decision 8).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedSession {
    /// The new session.
    pub session: SessionView,
    /// The key that authenticates the agent to the agent API.
    pub api_key: String,
    /// The utilization of the pool, if the session waits for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<super::pool::PoolUtilization>,
}

/// The complete usage of a session (S0 8.7 `SessionMetricsDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMetricsView {
    /// The usage of the session.
    #[serde(flatten)]
    pub metrics: MetricsView,
    /// The usage of each subagent.
    pub sub_agent_metrics: Vec<SubAgentView>,
    /// The control version of the session.
    pub version: u64,
}

/// A subagent of a session.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentView {
    /// The id of the subagent.
    pub id: pilothouse_domain::SubAgentId,
    /// The model, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// The tool call that started the subagent, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<pilothouse_domain::ToolCallId>,
    /// The objective of the subagent.
    pub objective: String,
    /// The status of the subagent.
    pub status: pilothouse_domain::session::SubAgentStatus,
    /// When the subagent started.
    pub started_at: Timestamp,
    /// When the subagent ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// The cost in dollars, included in the session's cost.
    pub total_cost_usd: Usd,
    /// The tokens by model, included in the session's tokens.
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// The cost by model in dollars, included in the session's cost. With `unattributedCostUsd` it adds up to the total.
    #[serde(default)]
    pub cost_usd_by_model: BTreeMap<String, Usd>,
    /// The part of the cost that an earlier version recorded without its model. Absent when there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed_cost_usd: Option<Usd>,
    /// The subagent's own context window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<ContextWindowView>,
}

/// The input of `approve` and `reject`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputDecision {
    /// The output that the owner reviewed.
    pub output_id: OutputId,
    /// The reason for a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The part of the cost that has no model, if there is one.
fn unattributed(usage: &UsageByModel) -> Option<Usd> {
    Some(usage.unattributed_cost_usd()).filter(|cost| !cost.is_zero())
}

/// Why the session has no running agent although it needs one.
fn queued_reason(session: &AgentSession) -> Option<&'static str> {
    let is_queued = session.status() == AgentSessionStatus::Queued;
    match session.run() {
        None if !is_queued && session.slot_wanted().is_none() => None,
        None if session.is_held() => Some("braked"),
        None if session.waits_for_budget() => Some("budget-exhausted"),
        None => Some("pool-exhausted"),
        Some(run) if run.unplaced_at.is_some() => Some("placement-unavailable"),
        Some(_) => is_queued.then_some("launching"),
    }
}

impl From<pilothouse_domain::session::SubAgentSession> for SubAgentView {
    fn from(subagent: pilothouse_domain::session::SubAgentSession) -> Self {
        Self {
            id: subagent.id,
            model_id: subagent.model_id,
            tool_call_id: subagent.tool_call_id,
            objective: subagent.objective,
            status: subagent.status,
            started_at: subagent.started_at,
            completed_at: subagent.completed_at,
            total_cost_usd: subagent.usage.total_cost_usd(),
            token_usage_by_model: subagent.usage.token_usage_by_model().clone(),
            cost_usd_by_model: subagent.usage.cost_usd_by_model().clone(),
            unattributed_cost_usd: unattributed(&subagent.usage),
            context_window: subagent.context_window.map(Into::into),
        }
    }
}

impl SessionView {
    /// The view of a Queued session that a brake stops although it does not hold the session itself.
    #[must_use]
    pub fn braked(mut self) -> Self {
        self.queued_reason = self.queued_reason.map(|_| "braked".to_owned());
        self
    }

    /// The view of a session.
    pub fn of(session: &AgentSession) -> Self {
        let settings = session.settings();
        let queued_reason = queued_reason(session).map(str::to_owned);
        Self {
            id: session.id(),
            owner_id: session.owner_id().clone(),
            template_id: session.template_id(),
            project: session.project().cloned(),
            chain_id: session.chain_id(),
            continues: session.continues().map(|continues| continues.session_id),
            continuation: session.continuation(),
            handoff_document: session.handoff_document().cloned(),
            context_policy: settings.agent.context_policy,
            name: session.name().to_string(),
            working_directory: session.working_directory().to_string(),
            objective: session.objective().to_string(),
            images: session.images().to_vec(),
            model_id: session.model_id().to_string(),
            adapter: settings.adapter.to_string(),
            enabled_skill_ids: session.enabled_skill_ids().to_vec(),
            reload_needed: session.config_changed(),
            reloading: session.reload().is_some(),
            consolidates_skill_id: session.consolidates(),
            labels: settings.labels.clone(),
            execution_mode: session.execution_mode(),
            status: session.status(),
            hibernated: session.hibernated(),
            unreachable: session.unreachable_since().is_some(),
            unreachable_since: session.unreachable_since(),
            has_pending_review: session.has_pending_review(),
            validating: session.is_validating(),
            queued_reason,
            cancel_accepted: session.cancel_accepted(),
            paused_reason: session.paused_reason(),
            held_by: session.held_by().iter().map(|held| held.brake_id).collect(),
            quota: session
                .quota()
                .map(|quota| QuotaView { message: quota.message.clone(), reset_at: quota.reset_at }),
            full_disk: session.full_disk().map(|full| full.disk),
            agent_settings: session.agent_settings(),
            adjustments: session
                .adjustments()
                .map(|pending| AdjustmentView {
                    adjustment: pending.adjustment.clone(),
                    late: pending.command.late,
                })
                .collect(),
            last_outcome: session.last_outcome(),
            deliverables: session.deliverables().map(|recorded| recorded.counts),
            budget: BudgetView::of(session),
            metrics: MetricsView::of(session),
            auto_continue_config: session.auto_continue().cloned(),
            session_task_list: session.task_list().cloned(),
            session_plan: session.plan().cloned(),
            pending_requests: session.pending_requests().to_vec(),
            output: session.output().cloned(),
            failure_reason: session.failure().cloned(),
            retry_count: session.retry_count(),
            max_retries: settings.max_retries,
            idle_timeout_seconds: settings.idle_timeout_seconds,
            paused_timeout_seconds: settings.paused_timeout_seconds,
            current_run: session.run().map(|run| RunView {
                id: run.id,
                ordinal: run.ordinal,
                cause: run.cause,
                phase: run.phase,
                capabilities: run.capabilities,
            }),
            current_turn: session.turn().cloned(),
            started_at: session.started_at(),
            completed_at: session.completed_at(),
            created_at: session.created_at(),
            updated_at: session.updated_at(),
            version: session.control_version(),
            cursor: super::cursor::cursor(session.journal_sequence()),
        }
    }
}

impl BudgetView {
    /// The budget of a session.
    pub fn of(session: &AgentSession) -> Self {
        let budget = session.budget();
        Self {
            hard_cap_usd: budget.hard_cap_usd(),
            warn_at_percent: budget.warn_at_percent(),
            tokens_used: budget.tokens_used(),
            estimated_cost_usd: budget.estimated_cost_usd(),
            carried_usd: budget.carried_usd(),
            remaining_usd: budget.remaining_usd(),
            overshoot_usd: budget.overshoot_usd(),
            percent_used: budget.percent_used().to_string(),
            exhausted: budget.exhausted(),
            unmetered: budget.unmetered(),
            allow_unmetered: budget.allows_unmetered(),
            allowance_usd: session.allowance_usd(),
        }
    }
}

impl MetricsView {
    /// The metrics of a session.
    pub fn of(session: &AgentSession) -> Self {
        let metrics = session.metrics();
        Self {
            total_cost_usd: metrics.usage.total_cost_usd(),
            token_usage_by_model: metrics.usage.token_usage_by_model().clone(),
            cost_usd_by_model: metrics.usage.cost_usd_by_model().clone(),
            unattributed_cost_usd: unattributed(&metrics.usage),
            context_window: metrics.context_window.map(Into::into),
            turn_count: metrics.turn_count,
            last_turn_at: metrics.last_turn_at,
        }
    }
}

impl SessionSummary {
    /// The summary of a session.
    pub fn of(session: &AgentSession) -> Self {
        let status = session.status();
        let outcome = match status {
            AgentSessionStatus::Completed if session.output().is_some() => Some("approved".to_owned()),
            AgentSessionStatus::Completed => Some("closed".to_owned()),
            AgentSessionStatus::Cancelled => Some("cancelled".to_owned()),
            AgentSessionStatus::ContextExhausted => Some("context-exhausted".to_owned()),
            _ => session.failure().map(|failure| failure.reason.to_string()),
        };
        let from = session.started_at().unwrap_or_else(|| session.created_at());
        let usage = &session.metrics().usage;
        Self {
            id: session.id(),
            name: session.name().to_string(),
            status,
            hibernated: session.hibernated(),
            unreachable: session.unreachable_since().is_some(),
            has_pending_review: session.has_pending_review(),
            project: session.project().cloned(),
            chain_id: session.chain_id(),
            total_cost_usd: usage.total_cost_usd(),
            token_usage_by_model: usage.token_usage_by_model().clone(),
            cost_usd_by_model: usage.cost_usd_by_model().clone(),
            unattributed_cost_usd: unattributed(usage),
            hard_cap_usd: session.budget().hard_cap_usd(),
            context_window_usage_percent: session
                .metrics()
                .context_window
                .map(|w| w.usage_percent().to_string()),
            turn_count: session.metrics().turn_count,
            elapsed_seconds: session
                .completed_at()
                .unwrap_or_else(|| session.updated_at())
                .since(from)
                .as_secs(),
            enabled_skill_count: session.enabled_skill_ids().len(),
            labels: session.settings().labels.clone(),
            outcome,
            created_at: session.created_at(),
            completed_at: session.completed_at(),
        }
    }
}
