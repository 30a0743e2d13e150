//! `POST /api/agents/templates`: makes a template (S0 8.7 `CreateAgentTemplateCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::session_config::skills_to_start_with;
use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::template::{
    AgentSchedule, AgentTemplate, AllowedTools, NewRule, NewTemplate, TemplateContent,
};
use pilothouse_domain::text::{
    AdapterName, AnswerText, ModelId, SystemPrompt, TemplateDescription, TemplateName,
};
use pilothouse_domain::value::{
    AllowedModels, AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget,
};
use pilothouse_domain::{AgentSkillId, AgentTemplateId, DomainContext, Usd, UserId};
use schemars::JsonSchema;
use serde_json::Value;

use super::input::{RuleInput, ScheduleInput};
use super::shown;
use crate::commands::project_agents::brief_changes::BriefDefaults;
use crate::commands::skills::definitions::ToolInput;
use crate::fields::{cap, fitting_options, listed_skills, percent};
use crate::session_options::input_with_session_options;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-create", Verb::Post, "/api/agents/templates", |verb| {
        verb.route(create_template)
    })
    .owner()
    .summary("Create a template")
    .input::<CreateTemplate>()
    .output::<TemplateView>(&[201]);

input_with_session_options! {
    /// A new template.
    #[derive(Debug, Clone, Deserr, JsonSchema)]
    #[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
    #[schemars(rename_all = "camelCase", deny_unknown_fields)]
    pub struct CreateTemplate {
        /// The name of the template.
        pub name: TemplateName,
        /// The purpose of the template.
        #[deserr(default)]
        pub description: Option<TemplateDescription>,
        /// The model of the template's sessions.
        pub model_id: ModelId,
        /// Ids of the models that its sessions may use: at most 50, with `modelId` among them. An id that ends with `*` allows all ids
        /// that begin like it. Default: all models that the server allows.
        #[deserr(default)]
        pub allowed_models: Option<AllowedModels>,
        /// The base system prompt. The instructions of skills follow it.
        #[deserr(default)]
        pub system_prompt: Option<SystemPrompt>,
        /// Names of the tools that the agent may use: at least one.
        pub allowed_tools: AllowedTools,
        /// The budget cap of a session, in US dollars.
        #[deserr(try_from(String) = cap -> FieldError)]
        pub default_budget_cap_usd: Usd,
        /// The percentage of the cap at which the owner is warned. Default: 80.
        #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
        pub warn_at_percent: Option<u8>,
        /// Whether sessions may run although the cost of their agents is unknown, so that the caps cannot be enforced. Default:
        /// `false`.
        #[deserr(default)]
        pub allow_unmetered: Option<bool>,
        /// Tools of MCP servers for the sessions. Names must be unique.
        #[deserr(default)]
        pub custom_tool_definitions: Vec<ToolInput>,
        /// Ids of the skills that are enabled for the sessions, in order. Default: none.
        #[deserr(default, try_from(Option<Vec<String>>) = listed_skills -> FieldError)]
        pub default_skill_ids: Option<Vec<AgentSkillId>>,
        /// The conditions for automatic continuation of the sessions. Default: none.
        #[deserr(default)]
        pub default_auto_continue_config: Option<AutoContinueConfig>,
        ..plan_approval,
        /// Classification rules for events, in order. The first matching rule decides. Default: none.
        #[deserr(default)]
        pub classification_rules: Vec<RuleInput>,
        /// The schedule on which the template starts sessions. Default: none.
        #[deserr(default)]
        pub schedule: Option<ScheduleInput>,
        /// How the sessions are executed. Default: `Standalone`.
        #[deserr(default)]
        pub execution_mode: Option<ExecutionMode>,
        /// The adapter that drives the agent. Default: the default adapter of sessions.
        #[deserr(default)]
        pub adapter: Option<AdapterName>,
        /// Options that the adapter defines. At most 64 KiB of JSON.
        #[deserr(default, try_from(Option<Value>) = fitting_options -> FieldError)]
        pub adapter_options: Option<Value>,
        /// Fields of the brief of agents that start from the template. Those of a spawn precede them. Default: none.
        #[deserr(default)]
        pub brief_defaults: Option<BriefDefaults>,
        ..request_options,
        ..context_policy,
        ..idle_timeouts,
        ..retries,
    }
}

impl CreateTemplate {
    fn content(&self) -> Result<TemplateContent, Problem> {
        let warn_at = self.warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        let budget = SessionBudget::new(self.default_budget_cap_usd, warn_at);
        let mut options = self.session_options();
        options.plan_approval_required.get_or_insert(true);
        Ok(TemplateContent {
            name: self.name.clone(),
            description: self.description.clone(),
            model_id: self.model_id.clone(),
            allowed_models: self.allowed_models.clone().unwrap_or_default(),
            system_prompt: self.system_prompt.clone(),
            allowed_tools: self.allowed_tools.clone(),
            default_budget: budget
                .map_err(|wrong| Problem::invalid("defaultBudgetCapUsd", wrong))?
                .allowing_unmetered(self.allow_unmetered.unwrap_or(false)),
            default_auto_continue_config: self.default_auto_continue_config.clone(),
            execution_mode: self.execution_mode.unwrap_or(ExecutionMode::Standalone),
            adapter: self.adapter.clone(),
            adapter_options: self.adapter_options.clone().unwrap_or_default(),
            brief_defaults: self.brief_defaults.clone().unwrap_or_default().into_fields(),
            options,
        })
    }

    fn new_template(&self, owner: &UserId, ctx: &mut DomainContext<'_>) -> Result<NewTemplate, Problem> {
        Ok(NewTemplate {
            id: AgentTemplateId::new(ctx.uuid()),
            owner_id: owner.clone(),
            content: self.content()?,
            custom_tool_definitions: self.custom_tool_definitions.iter().cloned().map(Into::into).collect(),
            default_skill_ids: self.default_skill_ids.clone().unwrap_or_default(),
            classification_rules: self.classification_rules.iter().cloned().map(NewRule::from).collect(),
            schedule: self.schedule.clone().map(AgentSchedule::from),
        })
    }
}

/// Responds with 201 and the template, which is active. Its default skills must belong to the owner and be active.
async fn create_template(
    State(app): State<App>,
    command: CommandContext,
    body: Body<CreateTemplate>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let input = body.input;
    let skills = input.default_skill_ids.as_deref().unwrap_or_default();
    app.allowed_models.check(&input.model_id)?;
    app.allowed_models.check_options(input.adapter_options.as_ref().unwrap_or(&Value::Null))?;
    skills_to_start_with(&app, &command.owner, "defaultSkillIds", skills, &[]).await?;
    let make = |ctx: &mut DomainContext<'_>| {
        Ok(AgentTemplate::create(input.new_template(&command.owner, ctx)?, ctx)?)
    };
    app.create_aggregate(&command, make, shown(StatusCode::CREATED)).await
}
