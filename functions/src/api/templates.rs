//! Templates over the API (S0 8.4 `AgentTemplate`).

use pilothouse_domain::template::{
    AgentSchedule, AgentTemplate, ClassificationRule, EventPriority, ScheduledRun,
};
use pilothouse_domain::value::{
    AutoContinueConfig, ContextPolicy, ExecutionMode, McpToolDefinition, SessionBudget,
};
use pilothouse_domain::{
    AgentSessionId, AgentSkillId, AgentTemplateId, ClassificationRuleId, OwnedAggregate as _, Timestamp, Usd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::sessions::StartedSession;

/// A template in full (S0 8.7 `AgentTemplateDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateView {
    /// Its id.
    pub id: AgentTemplateId,
    /// Counts its changes; also its `ETag`.
    pub version: u64,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The model of its sessions.
    pub model_id: String,
    /// Base instructions, before those of skills.
    pub system_prompt: Option<String>,
    /// The tools that the agent may use.
    pub allowed_tools: Vec<String>,
    /// Tools of MCP servers that its sessions get.
    pub custom_tool_definitions: Vec<McpToolDefinition>,
    /// Skills that are enabled for its sessions, in order.
    pub default_skill_ids: Vec<AgentSkillId>,
    /// When its sessions go on by themselves.
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    /// Whether leaving plan mode waits for the owner.
    pub plan_approval_required: bool,
    /// Rules for events, in order: the first that fits counts.
    pub classification_rules: Vec<ClassificationRule>,
    /// When it starts a session by itself.
    pub schedule: Option<ScheduleView>,
    /// The money of a session.
    pub default_budget: BudgetDefaultsView,
    /// How its sessions come to run.
    pub execution_mode: ExecutionMode,
    /// The adapter that drives the agent.
    pub adapter: Option<String>,
    /// What the adapter alone understands.
    pub adapter_options: Value,
    /// Seconds that a question or a plan may wait.
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time.
    pub default_answer: Option<String>,
    /// How full the context window may get before a warning, in percent.
    pub context_warn_at_percent: Option<u8>,
    /// What is done when the context window fills up: `handoff` or `compact`.
    pub context_policy: Option<ContextPolicy>,
    /// Seconds of quiet after which a session hibernates; 0: never.
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused.
    pub paused_timeout_seconds: Option<u64>,
    /// Whether sessions start from it.
    pub is_active: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
}

/// The money that a session of a template gets.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetDefaultsView {
    /// The cap.
    pub hard_cap_usd: Usd,
    /// At which percentage of it the owner is warned.
    pub warn_at_percent: u8,
}

impl From<&SessionBudget> for BudgetDefaultsView {
    fn from(budget: &SessionBudget) -> Self {
        Self { hard_cap_usd: budget.hard_cap_usd(), warn_at_percent: budget.warn_at_percent() }
    }
}

/// A schedule with where it stands.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// At which times: five fields.
    pub cron_expression: String,
    /// Of which clock: a name of the IANA database.
    pub time_zone: String,
    /// Whether it is switched on.
    pub is_enabled: bool,
    /// What its sessions are started with.
    pub launch: LaunchView,
    /// When it is due next. None while it is switched off, and after a time that found the template deactivated.
    pub next_run_at: Option<Timestamp>,
    /// The latest time that was due, and what came of it.
    pub last_run: Option<ScheduledRunView>,
}

/// What scheduled sessions are started with.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchView {
    /// Where the agent runs.
    pub working_directory: String,
    /// What it is to do.
    pub objective: String,
    /// The sessions' name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What came of a time that was due.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRunView {
    /// The time that the schedule named.
    pub scheduled_for: Timestamp,
    /// When it was carried out.
    pub at: Timestamp,
    /// The session that was started; none: it was skipped.
    pub session_id: Option<AgentSessionId>,
}

impl From<&ScheduledRun> for ScheduledRunView {
    fn from(run: &ScheduledRun) -> Self {
        Self { scheduled_for: run.scheduled_for, at: run.at, session_id: run.session_id }
    }
}

impl ScheduleView {
    fn of(template: &AgentTemplate) -> Option<Self> {
        let scheduled = template.scheduled()?;
        let AgentSchedule { cron_expression, time_zone, is_enabled, launch } = &scheduled.schedule;
        Some(Self {
            cron_expression: cron_expression.to_string(),
            time_zone: time_zone.to_string(),
            is_enabled: *is_enabled,
            launch: LaunchView {
                working_directory: launch.working_directory.to_string(),
                objective: launch.objective.to_string(),
                name: launch.name.as_ref().map(ToString::to_string),
            },
            next_run_at: scheduled.next_run_at,
            last_run: scheduled.last_run.as_ref().map(Into::into),
        })
    }
}

impl TemplateView {
    /// The view of a template.
    pub fn of(template: &AgentTemplate, version: u64) -> Self {
        let content = template.content();
        Self {
            id: template.id(),
            version,
            name: content.name.to_string(),
            description: content.description.as_ref().map(ToString::to_string),
            model_id: content.model_id.to_string(),
            system_prompt: content.system_prompt.as_ref().map(ToString::to_string),
            allowed_tools: content.allowed_tools.as_slice().to_vec(),
            custom_tool_definitions: template.custom_tool_definitions().to_vec(),
            default_skill_ids: template.default_skill_ids().to_vec(),
            default_auto_continue_config: content.default_auto_continue_config.clone(),
            plan_approval_required: content.plan_approval_required,
            classification_rules: template.classification_rules().to_vec(),
            schedule: ScheduleView::of(template),
            default_budget: (&content.default_budget).into(),
            execution_mode: content.execution_mode,
            adapter: content.adapter.as_ref().map(ToString::to_string),
            adapter_options: content.adapter_options.clone(),
            request_timeout_seconds: content.request_timeout_seconds,
            default_answer: content.default_answer.as_ref().map(ToString::to_string),
            context_warn_at_percent: content.context_warn_at_percent,
            context_policy: content.context_policy,
            idle_timeout_seconds: content.idle_timeout_seconds,
            paused_timeout_seconds: content.paused_timeout_seconds,
            is_active: template.is_active(),
            created_at: template.created_at(),
            updated_at: template.updated_at(),
        }
    }
}

/// A template in a list (S0 8.7 `AgentTemplateSummaryDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSummary {
    /// Its id.
    pub id: AgentTemplateId,
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The model of its sessions.
    pub model_id: String,
    /// Whether sessions start from it.
    pub is_active: bool,
    /// How many tools of MCP servers its sessions get.
    pub custom_tool_count: usize,
    /// How many skills are enabled for its sessions.
    pub skill_count: usize,
    /// How many rules it has for events.
    pub rule_count: usize,
    /// When its schedule is due next, if it has one.
    pub next_run_at: Option<Timestamp>,
    /// When it was made.
    pub created_at: Timestamp,
}

impl TemplateSummary {
    /// The summary of a template.
    pub fn of(template: &AgentTemplate) -> Self {
        let content = template.content();
        Self {
            id: template.id(),
            name: content.name.to_string(),
            description: content.description.as_ref().map(ToString::to_string),
            model_id: content.model_id.to_string(),
            is_active: template.is_active(),
            custom_tool_count: template.custom_tool_definitions().len(),
            skill_count: template.default_skill_ids().len(),
            rule_count: template.classification_rules().len(),
            next_run_at: template.due_at(),
            created_at: template.created_at(),
        }
    }
}

/// What came of an event from outside.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventAnswer {
    /// Whether a rule fitted. Without one nothing was started.
    pub matched: bool,
    /// The rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<ClassificationRuleId>,
    /// What the event is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classified_as: Option<String>,
    /// How urgent it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<EventPriority>,
    /// What was started.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedSession>,
}
