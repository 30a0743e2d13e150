//! `PUT /api/agents/templates/{id}`: updates fields of a template (S0 8.7 `UpdateAgentTemplateCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::patch::Patch;
use pilothouse_api::templates::TemplateView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::session::SessionOptions;
use pilothouse_domain::template::{AllowedTools, TemplateContent};
use pilothouse_domain::text::{
    AdapterName, AnswerText, ModelId, SystemPrompt, TemplateDescription, TemplateName,
};
use pilothouse_domain::value::{
    AllowedModels, AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget,
};
use pilothouse_domain::{AgentTemplateId, Usd};
use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::commands::project_agents::brief_changes::BriefDefaults;
use crate::fields::{fitting_options, maybe_cap, percent, present};
use crate::session_options::input_with_session_option_changes;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("templates-update", Verb::Put, "/api/agents/templates/{id}", |verb| {
        verb.route(update_template)
    })
    .owner()
    .summary("Update fields of a template")
    .input::<UpdateTemplate>()
    .output::<TemplateView>(&[200]);

input_with_session_option_changes! {
    /// The changes to a template. Omitted fields keep their values. `null` clears an optional field.
    #[derive(Debug, Clone, Deserr, JsonSchema)]
    #[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
    #[schemars(rename_all = "camelCase", deny_unknown_fields)]
    pub struct UpdateTemplate {
        /// The name of the template.
        #[deserr(default)]
        pub name: Option<TemplateName>,
        /// The purpose of the template.
        #[deserr(default)]
        pub description: Patch<TemplateDescription>,
        /// The model of the template's sessions.
        #[deserr(default)]
        pub model_id: Option<ModelId>,
        /// Ids of the models that its sessions may use, as a whole: at most 50, with `modelId` among them. An id that ends with `*`
        /// allows all ids that begin like it. `null` allows all models that the server allows. Existing sessions keep their lists.
        #[deserr(default)]
        pub allowed_models: Patch<AllowedModels>,
        /// The base system prompt. The instructions of skills follow it.
        #[deserr(default)]
        pub system_prompt: Patch<SystemPrompt>,
        /// Names of the tools that the agent may use: at least one.
        #[deserr(default)]
        pub allowed_tools: Option<AllowedTools>,
        /// The budget cap of a session, in US dollars.
        #[deserr(default, try_from(Option<String>) = maybe_cap -> FieldError)]
        pub default_budget_cap_usd: Option<Usd>,
        /// The percentage of the cap at which the owner is warned.
        #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
        pub warn_at_percent: Option<u8>,
        /// Whether sessions may run although the cost of their agents is unknown, so that the caps cannot be enforced.
        #[deserr(default)]
        pub allow_unmetered: Option<bool>,
        /// The conditions for automatic continuation of the sessions.
        #[deserr(default)]
        pub default_auto_continue_config: Patch<AutoContinueConfig>,
        ..plan_approval_changes,
        /// How the sessions are executed.
        #[deserr(default)]
        pub execution_mode: Option<ExecutionMode>,
        /// The adapter that drives the agent.
        #[deserr(default)]
        pub adapter: Patch<AdapterName>,
        /// Options that the adapter defines. At most 64 KiB of JSON.
        #[deserr(default, try_from(Patch<Value>) = patched_options -> FieldError)]
        pub adapter_options: Patch<Value>,
        /// Fields of the brief of agents that start from the template, as a whole.
        #[deserr(default)]
        pub brief_defaults: Patch<BriefDefaults>,
        ..request_option_changes,
        ..context_policy_changes,
        ..idle_timeout_changes,
        ..retry_changes,
    }
}

fn patched_options(patch: Patch<Value>) -> Result<Patch<Value>, FieldError> {
    patch.try_map(present(fitting_options))
}

impl UpdateTemplate {
    fn over(&self, before: &TemplateContent) -> Result<TemplateContent, Problem> {
        let cap = self.default_budget_cap_usd.unwrap_or_else(|| before.default_budget.hard_cap_usd());
        let warn_at = self.warn_at_percent.unwrap_or_else(|| before.default_budget.warn_at_percent());
        let allow_unmetered =
            self.allow_unmetered.unwrap_or_else(|| before.default_budget.allows_unmetered());
        let options = match &self.adapter_options {
            Patch::Keep => before.adapter_options.clone(),
            Patch::Clear => Value::Null,
            Patch::Set(options) => options.clone(),
        };
        Ok(TemplateContent {
            name: self.name.clone().unwrap_or_else(|| before.name.clone()),
            description: self.description.apply_to(&before.description),
            model_id: self.model_id.clone().unwrap_or_else(|| before.model_id.clone()),
            allowed_models: match &self.allowed_models {
                Patch::Keep => before.allowed_models.clone(),
                Patch::Clear => AllowedModels::default(),
                Patch::Set(models) => models.clone(),
            },
            system_prompt: self.system_prompt.apply_to(&before.system_prompt),
            allowed_tools: self.allowed_tools.clone().unwrap_or_else(|| before.allowed_tools.clone()),
            default_budget: SessionBudget::new(cap, warn_at)
                .map_err(|wrong| Problem::invalid("defaultBudgetCapUsd", wrong))?
                .allowing_unmetered(allow_unmetered),
            default_auto_continue_config: self
                .default_auto_continue_config
                .apply_to(&before.default_auto_continue_config),
            execution_mode: self.execution_mode.unwrap_or(before.execution_mode),
            adapter: self.adapter.apply_to(&before.adapter),
            adapter_options: options,
            brief_defaults: match &self.brief_defaults {
                Patch::Keep => before.brief_defaults.clone(),
                Patch::Clear => Map::new(),
                Patch::Set(defaults) => defaults.clone().into_fields(),
            },
            options: self.session_options(&before.options),
        })
    }
}

/// Responds with 200 and the template. Existing sessions keep the settings that they started with. Only the prompt and the
/// tools are read again at a new launch or a reload.
async fn update_template(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentTemplateId>,
    body: Body<UpdateTemplate>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    if let Some(model) = &body.input.model_id {
        app.allowed_models.check(model)?;
    }
    if let Patch::Set(options) = &body.input.adapter_options {
        app.allowed_models.check_options(options)?;
    }
    super::change(&app, &command, id, |it, ctx| Ok(it.update(body.input.over(it.content())?, ctx)?)).await
}
