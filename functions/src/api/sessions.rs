//! Sessions over the API.

use std::collections::BTreeMap;

use pilothouse_domain::session::{
    AgentSession, AgentSessionStatus, Failure, PausedReason, PendingRequest, RecordedOutput, RunCause,
    RunPhase, Turn,
};
use pilothouse_domain::value::{
    Adjustment, AgentSettings, AutoContinueConfig, Capabilities, ContextPolicy, ContextWindowSnapshot,
    DeliverableCounts, ExecutionMode, RecordedHandoff, SessionOutcome, SessionPlan, SessionTaskList,
    TokenUsage,
};
use pilothouse_domain::{
    AgentSessionId, AgentSkillId, AgentTemplateId, OutputId, RunId, SessionChainId, Timestamp, Usd, UserId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session in full (S0 8.7 `AgentSessionDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[allow(clippy::struct_excessive_bools)] // independent yes or no answers
pub struct SessionView {
    /// Its id.
    pub id: AgentSessionId,
    /// Its owner.
    pub owner_id: UserId,
    /// What it was started from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template_id: Option<AgentTemplateId>,
    /// The chain that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// The session before it in its chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<AgentSessionId>,
    /// The session that goes on with its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<AgentSessionId>,
    /// The document that it leaves to whoever goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff_document: Option<RecordedHandoff>,
    /// What is done when its context window fills up.
    #[serde(default)]
    pub context_policy: ContextPolicy,
    /// Its name.
    pub name: String,
    /// Where its agent runs.
    pub working_directory: String,
    /// What its agent is to do.
    pub objective: String,
    /// Its model.
    pub model_id: String,
    /// Its adapter.
    pub adapter: String,
    /// Its skills.
    pub enabled_skill_ids: Vec<AgentSkillId>,
    /// Skills were enabled or disabled that its sidecar does not know yet: reload it.
    #[serde(default)]
    pub reload_needed: bool,
    /// Its sidecar is taking a new configuration.
    #[serde(default)]
    pub reloading: bool,
    /// The skill whose memory pills it folds into the instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consolidates_skill_id: Option<AgentSkillId>,
    /// Its owner's labels.
    pub labels: BTreeMap<String, String>,
    /// How it came to run.
    pub execution_mode: ExecutionMode,
    /// Where it stands.
    pub status: AgentSessionStatus,
    /// Its status is kept without a process; the next message, answer or resume wakes it.
    pub hibernated: bool,
    /// Output waits for a decision.
    pub has_pending_review: bool,
    /// Its turn is over, and its criteria are being checked (ruling 36).
    #[serde(default)]
    pub validating: bool,
    /// What it waits for while it is Queued: `pool-exhausted`, `launching`,
    /// `placement-unavailable` when nobody who could run it is there, `budget-exhausted` when the sessions before it
    /// in its chain spent everything (ruling 33).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_reason: Option<String>,
    /// A cancellation waits for another request to resolve.
    pub cancel_accepted: bool,
    /// Why it is Paused, or is about to be: `owner`, `budget-exhausted`, `quota-exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_reason: Option<PausedReason>,
    /// The plan that pays for the agent is used up (ruling 39).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaView>,
    /// What its agent works with, as it told last; before that, what it is to begin with.
    #[serde(default)]
    pub agent_settings: AgentSettings,
    /// Changes of how the agent works that it has yet to make, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub adjustments: Vec<AdjustmentView>,
    /// How its last turn ended (S4 `SessionOutcome`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_outcome: Option<SessionOutcome>,
    /// How many of its deliverables stand where; none where its agent told of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliverables: Option<DeliverableCounts>,
    /// Its money.
    pub budget: BudgetView,
    /// What it used.
    pub metrics: MetricsView,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_continue_config: Option<AutoContinueConfig>,
    /// Its agent's task list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_task_list: Option<SessionTaskList>,
    /// Its agent's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_plan: Option<SessionPlan>,
    /// Questions and plans that wait for the owner.
    pub pending_requests: Vec<PendingRequest>,
    /// What it produced last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<RecordedOutput>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<Failure>,
    /// How often it was retried.
    pub retry_count: u32,
    /// How often it may be.
    pub max_retries: u32,
    /// Seconds after which it hibernates when it rests or waits and nothing is heard of it; 0: never.
    #[serde(default)]
    pub idle_timeout_seconds: u64,
    /// The same while it is Paused.
    #[serde(default)]
    pub paused_timeout_seconds: u64,
    /// Its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_run: Option<RunView>,
    /// The turn under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_turn: Option<Turn>,
    /// When its agent began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// The control version; also its `ETag`.
    pub version: u64,
    /// The live stream's cursor now: `?after=` it misses nothing that is not shown here.
    pub cursor: String,
}

/// A plan that is used up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaView {
    /// The runtime's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When the session goes on by itself, where the runtime said; none: its owner resumes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_at: Option<Timestamp>,
}

/// A change that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AdjustmentView {
    /// What changes.
    #[serde(flatten)]
    pub adjustment: Adjustment,
    /// Whether it takes longer than it should.
    pub late: bool,
}

/// A run over the API.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    /// Its id.
    pub id: RunId,
    /// Counts the session's runs from 1.
    pub ordinal: u32,
    /// What for.
    pub cause: RunCause,
    /// How far it is.
    #[serde(flatten)]
    pub phase: RunPhase,
    /// What its adapter can do, once it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
}

/// Money over the API.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetView {
    /// The cap.
    pub hard_cap_usd: Usd,
    /// The warning threshold.
    pub warn_at_percent: u8,
    /// Tokens spent.
    pub tokens_used: u64,
    /// Dollars spent by this session.
    pub estimated_cost_usd: Usd,
    /// Dollars spent by the sessions before it in its chain; they count against the cap, too (ruling 33).
    #[serde(default)]
    pub carried_usd: Usd,
    /// What is left.
    pub remaining_usd: Usd,
    /// Spend above the cap.
    pub overshoot_usd: Usd,
    /// Spend in percent of the cap.
    pub percent_used: String,
    /// Whether nothing more is spent: the cap is reached, or the next model call could pass it (ruling 32).
    pub exhausted: bool,
    /// The most dollars that the current run may spend from its beginning on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_usd: Option<Usd>,
}

/// Metrics over the API (S0 8.5).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsView {
    /// Dollars, subagents included.
    pub total_cost_usd: Usd,
    /// Tokens by model, subagents included.
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// The parent's context window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<ContextWindowView>,
    /// Turns that ended.
    pub turn_count: u32,
    /// When the last one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_turn_at: Option<Timestamp>,
}

/// A context window with what is computed of it.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextWindowView {
    /// The snapshot.
    #[serde(flatten)]
    pub snapshot: ContextWindowSnapshot,
    /// Its tokens together.
    pub total_tokens: u64,
    /// How full it is, in percent.
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

/// A session in a list (S0 8.7 `AgentSessionSummaryDto`), and in the history.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionSummary {
    /// Its id.
    pub id: AgentSessionId,
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub status: AgentSessionStatus,
    /// Its status is kept without a process.
    pub hibernated: bool,
    /// Output waits for a decision.
    pub has_pending_review: bool,
    /// The chain that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain_id: Option<SessionChainId>,
    /// Dollars spent.
    pub total_cost_usd: Usd,
    /// Of this many.
    pub hard_cap_usd: Usd,
    /// How full the context window is, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window_usage_percent: Option<String>,
    /// Turns that ended.
    pub turn_count: u32,
    /// From its start to its end or last change.
    pub elapsed_seconds: u64,
    /// Skills in use.
    pub enabled_skill_count: usize,
    /// Its owner's labels.
    pub labels: BTreeMap<String, String>,
    /// How it ended: `approved`, `closed`, `cancelled`, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
}

/// What starting a session answers: the session, and its key, shown once (ruling 8).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedSession {
    /// The session.
    pub session: SessionView,
    /// The key that the agent uses on the agent API.
    pub api_key: String,
    /// The pool, when the session waits for a slot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<super::pool::PoolView>,
}

/// The whole metrics of a session (S0 8.7 `SessionMetricsDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionMetricsView {
    /// Of the session.
    #[serde(flatten)]
    pub metrics: MetricsView,
    /// Of each subagent.
    pub sub_agent_metrics: Vec<SubAgentView>,
    /// The control version of the session.
    pub version: u64,
}

/// A subagent over the API.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubAgentView {
    /// Its id.
    pub id: pilothouse_domain::SubAgentId,
    /// Its model, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
    /// What it is to do.
    pub objective: String,
    /// Where it stands.
    pub status: pilothouse_domain::session::SubAgentStatus,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Dollars; part of the session's.
    pub total_cost_usd: Usd,
    /// Tokens by model; part of the session's.
    pub token_usage_by_model: BTreeMap<String, TokenUsage>,
    /// Its own context window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<ContextWindowView>,
}

/// Input of `approve` and `reject`: names the output that was looked at.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutputDecision {
    /// The output.
    pub output_id: OutputId,
    /// Why, when it is rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<pilothouse_domain::session::SubAgentSession> for SubAgentView {
    fn from(subagent: pilothouse_domain::session::SubAgentSession) -> Self {
        Self {
            id: subagent.id,
            model_id: subagent.model_id,
            objective: subagent.objective,
            status: subagent.status,
            started_at: subagent.started_at,
            completed_at: subagent.completed_at,
            total_cost_usd: subagent.total_cost_usd,
            token_usage_by_model: subagent.token_usage_by_model,
            context_window: subagent.context_window.map(Into::into),
        }
    }
}

impl SessionView {
    /// The view of a session.
    pub fn of(session: &AgentSession) -> Self {
        let settings = session.settings();
        let queued_reason = (session.status() == AgentSessionStatus::Queued).then(|| {
            let reason = match session.run() {
                None if session.waits_for_budget() => "budget-exhausted",
                None => "pool-exhausted",
                Some(run) if run.unplaced_at.is_some() => "placement-unavailable",
                Some(_) => "launching",
            };
            reason.to_owned()
        });
        Self {
            id: session.id(),
            owner_id: session.owner_id().clone(),
            template_id: session.template_id(),
            chain_id: session.chain_id(),
            continues: session.continues().map(|continues| continues.session_id),
            continuation: session.continuation(),
            handoff_document: session.handoff_document().cloned(),
            context_policy: settings.context_policy,
            name: session.name().to_string(),
            working_directory: session.working_directory().to_string(),
            objective: session.objective().to_string(),
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
            has_pending_review: session.has_pending_review(),
            validating: session.is_validating(),
            queued_reason,
            cancel_accepted: session.cancel_accepted(),
            paused_reason: session.paused_reason(),
            quota: session
                .quota()
                .map(|quota| QuotaView { message: quota.message.clone(), reset_at: quota.reset_at }),
            agent_settings: session.agent_settings(),
            adjustments: session
                .adjustments()
                .map(|pending| AdjustmentView {
                    adjustment: pending.adjustment.clone(),
                    late: pending.order.late,
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
            cursor: super::stream::cursor(session.journal_sequence()),
        }
    }
}

impl BudgetView {
    /// The money of a session.
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
            allowance_usd: session.allowance_usd(),
        }
    }
}

impl MetricsView {
    /// The metrics of a session.
    pub fn of(session: &AgentSession) -> Self {
        let metrics = session.metrics();
        Self {
            total_cost_usd: metrics.total_cost_usd,
            token_usage_by_model: metrics.token_usage_by_model.clone(),
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
            _ => session.failure().map(|failure| format!("{:?}", failure.reason)),
        };
        let from = session.started_at().unwrap_or_else(|| session.created_at());
        Self {
            id: session.id(),
            name: session.name().to_string(),
            status,
            hibernated: session.hibernated(),
            has_pending_review: session.has_pending_review(),
            chain_id: session.chain_id(),
            total_cost_usd: session.metrics().total_cost_usd,
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
