//! Templates in the API (S0 8.4 `AgentTemplate`).

use pilothouse_domain::template::{
    AgentSchedule, AgentTemplate, ClassificationRule, EventPriority, ScheduledRun,
};
use pilothouse_domain::value::{
    AllowedModels, AutoContinueConfig, ContextPolicy, ExecutionMode, McpToolDefinition, SessionBudget,
};
use pilothouse_domain::{
    AgentSessionId, AgentSkillId, AgentTemplateId, Aggregate as _, ClassificationRuleId, Timestamp, Usd,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::sessions::StartedSession;

/// A template with all its settings (S0 8.7 `AgentTemplateDto`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateView {
    /// The id of the template.
    pub id: AgentTemplateId,
    /// The version of the template; also its `ETag`.
    pub version: u64,
    /// The name of the template.
    pub name: String,
    /// A description of the template.
    pub description: Option<String>,
    /// The model of the sessions.
    pub model_id: String,
    /// The models that the sessions may use. None: all models that the server allows.
    #[serde(default, skip_serializing_if = "AllowedModels::is_unlimited")]
    pub allowed_models: AllowedModels,
    /// The base instructions, which precede those of the skills.
    pub system_prompt: Option<String>,
    /// The tools that the agent may use.
    pub allowed_tools: Vec<String>,
    /// The MCP tools of the sessions.
    pub custom_tool_definitions: Vec<McpToolDefinition>,
    /// The skills that are enabled on the sessions, in order.
    pub default_skill_ids: Vec<AgentSkillId>,
    /// When the sessions start their next turn without the owner.
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    /// Whether the agent waits for the owner's approval before it leaves plan mode.
    pub plan_approval_required: bool,
    /// The rules that classify events, in order. The first rule that matches applies.
    pub classification_rules: Vec<ClassificationRule>,
    /// When the template starts sessions on a schedule.
    pub schedule: Option<ScheduleView>,
    /// The budget of a session.
    pub default_budget: BudgetDefaultsView,
    /// The execution mode of the sessions.
    pub execution_mode: ExecutionMode,
    /// The adapter that drives the agent.
    pub adapter: Option<String>,
    /// Options that only the adapter interprets.
    pub adapter_options: Value,
    /// Fields of the brief of agents that start from the template.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub brief_defaults: Map<String, Value>,
    /// Seconds that a question or a plan waits for an answer.
    pub request_timeout_seconds: Option<u64>,
    /// The answer that is used when the owner does not answer in time.
    pub default_answer: Option<String>,
    /// The percentage of the context window at which the owner is warned.
    pub context_warn_at_percent: Option<u8>,
    /// What happens when the context window is nearly full: `handoff` or `compact`.
    pub context_policy: Option<ContextPolicy>,
    /// Seconds without activity after which a session hibernates; 0 disables this.
    pub idle_timeout_seconds: Option<u64>,
    /// Seconds without activity after which a Paused session hibernates; 0 disables this.
    pub paused_timeout_seconds: Option<u64>,
    /// How often a failed session can be retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// Whether sessions can be started from the template.
    pub is_active: bool,
    /// When the template was created.
    pub created_at: Timestamp,
    /// When the template last changed.
    pub updated_at: Timestamp,
}

/// The default budget of a template's sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BudgetDefaultsView {
    /// The cap in dollars.
    pub hard_cap_usd: Usd,
    /// The percentage of the cap at which the owner is warned.
    pub warn_at_percent: u8,
    /// Whether sessions may run although their spend cannot be measured.
    #[serde(default)]
    pub allow_unmetered: bool,
}

impl From<&SessionBudget> for BudgetDefaultsView {
    fn from(budget: &SessionBudget) -> Self {
        Self {
            hard_cap_usd: budget.hard_cap_usd(),
            warn_at_percent: budget.warn_at_percent(),
            allow_unmetered: budget.allows_unmetered(),
        }
    }
}

/// A schedule with its next and its latest run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleView {
    /// The times, as a cron expression of five fields.
    pub cron_expression: String,
    /// The IANA time zone of the schedule.
    pub time_zone: String,
    /// Whether the schedule is enabled.
    pub is_enabled: bool,
    /// The settings of the sessions that the schedule starts.
    pub launch: LaunchView,
    /// The time of the next run. Absent while the schedule is disabled, and after a run that found the template deactivated.
    pub next_run_at: Option<Timestamp>,
    /// The latest scheduled time and its result.
    pub last_run: Option<ScheduledRunView>,
}

/// The settings of scheduled sessions.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LaunchView {
    /// The directory that the agent works in.
    pub working_directory: String,
    /// The objective of the agent.
    pub objective: String,
    /// The name of the sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The result of a scheduled run.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledRunView {
    /// The time that the schedule specified.
    pub scheduled_for: Timestamp,
    /// When the run was processed.
    pub at: Timestamp,
    /// The session that was started. Absent when the run was skipped.
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
            allowed_models: content.allowed_models.clone(),
            system_prompt: content.system_prompt.as_ref().map(ToString::to_string),
            allowed_tools: content.allowed_tools.as_slice().to_vec(),
            custom_tool_definitions: template.custom_tool_definitions().to_vec(),
            default_skill_ids: template.default_skill_ids().to_vec(),
            default_auto_continue_config: content.default_auto_continue_config.clone(),
            plan_approval_required: content.options.plan_approval_required.unwrap_or(true),
            classification_rules: template.classification_rules().to_vec(),
            schedule: ScheduleView::of(template),
            default_budget: (&content.default_budget).into(),
            execution_mode: content.execution_mode,
            adapter: content.adapter.as_ref().map(ToString::to_string),
            adapter_options: content.adapter_options.clone(),
            brief_defaults: content.brief_defaults.clone(),
            request_timeout_seconds: content.options.request_timeout_seconds,
            default_answer: content.options.default_answer.as_ref().map(ToString::to_string),
            context_warn_at_percent: content.options.context_warn_at_percent,
            context_policy: content.options.context_policy,
            idle_timeout_seconds: content.options.idle_timeout_seconds,
            paused_timeout_seconds: content.options.paused_timeout_seconds,
            max_retries: content.options.max_retries,
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
    /// The id of the template.
    pub id: AgentTemplateId,
    /// The name of the template.
    pub name: String,
    /// A description of the template.
    pub description: Option<String>,
    /// The model of the sessions.
    pub model_id: String,
    /// Whether sessions can be started from the template.
    pub is_active: bool,
    /// The number of MCP tools.
    pub custom_tool_count: usize,
    /// The number of skills that are enabled on the sessions.
    pub skill_count: usize,
    /// The number of classification rules.
    pub rule_count: usize,
    /// The time of the next scheduled run, if any.
    pub next_run_at: Option<Timestamp>,
    /// When the template was created.
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

/// The response to an external event.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventResponse {
    /// Whether a rule matched. Otherwise no session was started.
    pub matched: bool,
    /// The id of the rule that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_id: Option<ClassificationRuleId>,
    /// The classification of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classified_as: Option<String>,
    /// The priority of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<EventPriority>,
    /// The session that was started.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub started: Option<StartedSession>,
}
