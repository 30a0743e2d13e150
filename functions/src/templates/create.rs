//! `POST /api/agents/templates`: makes a template (S0 8.7 `CreateAgentTemplateCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::template::{
    AgentSchedule, AgentTemplate, AllowedTools, InvalidTools, NewRule, NewTemplate, TemplateContent,
};
use pilothouse_domain::text::{
    AdapterName, AnswerText, InvalidText, ModelId, SystemPrompt, TemplateDescription, TemplateName,
};
use pilothouse_domain::value::{AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget};
use pilothouse_domain::{AgentSkillId, AgentTemplateId, Occasion, Usd, UserId};
use schemars::JsonSchema;
use serde_json::Value;

use super::input::{RuleInput, ScheduleInput};
use super::shown;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::config::skills_to_start_with;
use crate::edge::Problem;
use crate::edge::input::{Body, Said, Violations, maybe, maybe_by_serde};
use crate::sessions::start::{
    auto_continue, cap, fitting_options, idle_time, listed_skills, percent, timeout,
};
use crate::skills::definitions::ToolInput;

/// What a template is made of.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateTemplate {
    /// Its name.
    #[deserr(try_from(String) = TemplateName::try_from -> InvalidText)]
    pub name: TemplateName,
    /// What it is for.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub description: Option<TemplateDescription>,
    /// The model of its sessions.
    #[deserr(try_from(String) = ModelId::try_from -> InvalidText)]
    pub model_id: ModelId,
    /// Base instructions, before those of skills.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub system_prompt: Option<SystemPrompt>,
    /// The tools that the agent may use: at least one.
    #[deserr(try_from(Vec<String>) = AllowedTools::new -> InvalidTools)]
    pub allowed_tools: AllowedTools,
    /// The most dollars that a session may spend.
    #[deserr(try_from(String) = cap -> Said)]
    pub default_budget_cap_usd: Usd,
    /// At which percentage of the cap the owner is warned. Default: 80.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    pub warn_at_percent: Option<u8>,
    /// Tools of MCP servers that its sessions get, each name once.
    #[deserr(default)]
    pub custom_tool_definitions: Vec<ToolInput>,
    /// Skills that are enabled for its sessions, in order.
    #[deserr(default, try_from(Option<Vec<String>>) = listed_skills -> Said)]
    pub default_skill_ids: Option<Vec<AgentSkillId>>,
    /// When its sessions go on by themselves. Default: never.
    #[deserr(default, try_from(Option<Value>) = auto_continue -> Said)]
    pub default_auto_continue_config: Option<AutoContinueConfig>,
    /// Whether leaving plan mode waits for the owner. Default: yes.
    #[deserr(default)]
    pub plan_approval_required: Option<bool>,
    /// Rules for events, in order: the first that fits counts.
    #[deserr(default)]
    pub classification_rules: Vec<RuleInput>,
    /// When it starts a session by itself. Default: never.
    #[deserr(default)]
    pub schedule: Option<ScheduleInput>,
    /// How its sessions come to run. Default: `Standalone`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub execution_mode: Option<ExecutionMode>,
    /// The adapter that drives the agent. Default: the default one of sessions.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    #[deserr(default, try_from(Option<Value>) = fitting_options -> Said)]
    pub adapter_options: Option<Value>,
    /// Seconds that a question or a plan may wait. Default: 24 hours.
    #[deserr(default, try_from(Option<u64>) = timeout -> Said)]
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time. Default: none, the session fails.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub default_answer: Option<AnswerText>,
    /// How full the context window may get before a warning. Default: 85.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    pub context_warn_at_percent: Option<u8>,
    /// What is done when the context window fills up: `handoff` (the default) or `compact`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub context_policy: Option<ContextPolicy>,
    /// Seconds of quiet after which a session hibernates; 0: never. Default: 15 minutes.
    #[deserr(default, try_from(Option<u64>) = idle_time -> Said)]
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused. Default: an hour.
    #[deserr(default, try_from(Option<u64>) = idle_time -> Said)]
    pub paused_timeout_seconds: Option<u64>,
}

impl CreateTemplate {
    fn content(&self) -> Result<TemplateContent, Problem> {
        let warn_at = self.warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        let budget = SessionBudget::new(self.default_budget_cap_usd, warn_at);
        Ok(TemplateContent {
            name: self.name.clone(),
            description: self.description.clone(),
            model_id: self.model_id.clone(),
            system_prompt: self.system_prompt.clone(),
            allowed_tools: self.allowed_tools.clone(),
            default_budget: budget.map_err(|wrong| Problem::invalid("defaultBudgetCapUsd", wrong))?,
            default_auto_continue_config: self.default_auto_continue_config.clone(),
            plan_approval_required: self.plan_approval_required.unwrap_or(true),
            execution_mode: self.execution_mode.unwrap_or(ExecutionMode::Standalone),
            adapter: self.adapter.clone(),
            adapter_options: self.adapter_options.clone().unwrap_or_default(),
            request_timeout_seconds: self.request_timeout_seconds,
            default_answer: self.default_answer.clone(),
            context_warn_at_percent: self.context_warn_at_percent,
            context_policy: self.context_policy,
            idle_timeout_seconds: self.idle_timeout_seconds,
            paused_timeout_seconds: self.paused_timeout_seconds,
        })
    }

    fn new_template(&self, owner: &UserId, cx: &mut Occasion<'_>) -> Result<NewTemplate, Problem> {
        Ok(NewTemplate {
            id: AgentTemplateId::new(cx.uuid()),
            owner_id: owner.clone(),
            content: self.content()?,
            custom_tool_definitions: self.custom_tool_definitions.iter().cloned().map(Into::into).collect(),
            default_skill_ids: self.default_skill_ids.clone().unwrap_or_default(),
            classification_rules: self.classification_rules.iter().cloned().map(NewRule::from).collect(),
            schedule: self.schedule.clone().map(AgentSchedule::from),
        })
    }
}

/// 201 with the template, active. Its default skills must be the owner's, and active.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    body: Body<CreateTemplate>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let input = body.input;
    let skills = input.default_skill_ids.as_deref().unwrap_or_default();
    skills_to_start_with(&app, &call.owner, "defaultSkillIds", skills, &[]).await?;
    let make = |cx: &mut Occasion<'_>| Ok(AgentTemplate::create(input.new_template(&call.owner, cx)?, cx)?);
    app.create_owned(&call, make, shown(StatusCode::CREATED)).await
}
