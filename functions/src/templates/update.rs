//! `PUT /api/agents/templates/{id}`: changes fields of a template (S0 8.7 `UpdateAgentTemplateCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::template::{AllowedTools, InvalidTools, TemplateContent};
use pilothouse_domain::text::{
    AdapterName, AnswerText, InvalidText, ModelId, SystemPrompt, TemplateDescription, TemplateName,
};
use pilothouse_domain::value::{AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget};
use pilothouse_domain::{AgentTemplateId, Usd};
use schemars::JsonSchema;
use serde_json::Value;

use super::input::maybe_allowed_tools;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Said, Violations, by_serde, maybe, maybe_by_serde};
use crate::edge::patch::{Patch, patched};
use crate::edge::{Id, Problem};
use crate::sessions::start::{auto_continue, fitting_options, idle_time, maybe_cap, percent, timeout};

/// The fields that change. What is left out stays as it is; `null` takes away what a template need not have.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateTemplate {
    /// Its name.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub name: Option<TemplateName>,
    /// What it is for.
    #[deserr(default, try_from(Patch<String>) = patched -> InvalidText)]
    pub description: Patch<TemplateDescription>,
    /// The model of its sessions.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub model_id: Option<ModelId>,
    /// Base instructions, before those of skills.
    #[deserr(default, try_from(Patch<String>) = patched -> InvalidText)]
    pub system_prompt: Patch<SystemPrompt>,
    /// The tools that the agent may use: at least one.
    #[deserr(default, try_from(Option<Vec<String>>) = maybe_allowed_tools -> InvalidTools)]
    pub allowed_tools: Option<AllowedTools>,
    /// The most dollars that a session may spend.
    #[deserr(default, try_from(Option<String>) = maybe_cap -> Said)]
    pub default_budget_cap_usd: Option<Usd>,
    /// At which percentage of the cap the owner is warned.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    pub warn_at_percent: Option<u8>,
    /// When its sessions go on by themselves.
    #[deserr(default, try_from(Patch<Value>) = patched_auto_continue -> Said)]
    pub default_auto_continue_config: Patch<AutoContinueConfig>,
    /// Whether leaving plan mode waits for the owner.
    #[deserr(default)]
    pub plan_approval_required: Option<bool>,
    /// How its sessions come to run.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub execution_mode: Option<ExecutionMode>,
    /// The adapter that drives the agent.
    #[deserr(default, try_from(Patch<String>) = patched -> InvalidText)]
    pub adapter: Patch<AdapterName>,
    /// What the adapter alone understands.
    #[deserr(default, try_from(Patch<Value>) = patched_options -> Said)]
    pub adapter_options: Patch<Value>,
    /// Seconds that a question or a plan may wait.
    #[deserr(default, try_from(Patch<u64>) = patched_timeout -> Said)]
    pub request_timeout_seconds: Patch<u64>,
    /// The answer that stands in when nobody answers in time.
    #[deserr(default, try_from(Patch<String>) = patched -> InvalidText)]
    pub default_answer: Patch<AnswerText>,
    /// How full the context window may get before a warning, in percent.
    #[deserr(default, try_from(Patch<u64>) = patched_percent -> Said)]
    pub context_warn_at_percent: Patch<u8>,
    /// What is done when the context window fills up: `handoff` or `compact`.
    #[deserr(default, try_from(Patch<Value>) = patched_policy -> Said)]
    pub context_policy: Patch<ContextPolicy>,
    /// Seconds of quiet after which a session hibernates; 0: never.
    #[deserr(default, try_from(Patch<u64>) = patched_idle_time -> Said)]
    pub idle_timeout_seconds: Patch<u64>,
    /// The same while it is Paused.
    #[deserr(default, try_from(Patch<u64>) = patched_idle_time -> Said)]
    pub paused_timeout_seconds: Patch<u64>,
}

/// The same rule for a field that is there as for one that may be missing.
fn there<T, U>(read: impl FnOnce(Option<T>) -> Result<Option<U>, Said>) -> impl FnOnce(T) -> Result<U, Said> {
    |value| read(Some(value))?.ok_or_else(|| Said("must not be null".to_owned()))
}

fn patched_auto_continue(patch: Patch<Value>) -> Result<Patch<AutoContinueConfig>, Said> {
    patch.read(there(auto_continue))
}

fn patched_options(patch: Patch<Value>) -> Result<Patch<Value>, Said> {
    patch.read(there(fitting_options))
}

fn patched_timeout(patch: Patch<u64>) -> Result<Patch<u64>, Said> {
    patch.read(there(timeout))
}

fn patched_policy(patch: Patch<Value>) -> Result<Patch<ContextPolicy>, Said> {
    patch.read(by_serde)
}

fn patched_idle_time(patch: Patch<u64>) -> Result<Patch<u64>, Said> {
    patch.read(there(idle_time))
}

fn patched_percent(patch: Patch<u64>) -> Result<Patch<u8>, Said> {
    patch.read(there(percent))
}

impl UpdateTemplate {
    fn over(&self, before: &TemplateContent) -> Result<TemplateContent, Problem> {
        let cap = self.default_budget_cap_usd.unwrap_or_else(|| before.default_budget.hard_cap_usd());
        let warn_at = self.warn_at_percent.unwrap_or_else(|| before.default_budget.warn_at_percent());
        let options = match &self.adapter_options {
            Patch::Keep => before.adapter_options.clone(),
            Patch::Clear => Value::Null,
            Patch::Set(options) => options.clone(),
        };
        Ok(TemplateContent {
            name: self.name.clone().unwrap_or_else(|| before.name.clone()),
            description: self.description.over(&before.description),
            model_id: self.model_id.clone().unwrap_or_else(|| before.model_id.clone()),
            system_prompt: self.system_prompt.over(&before.system_prompt),
            allowed_tools: self.allowed_tools.clone().unwrap_or_else(|| before.allowed_tools.clone()),
            default_budget: SessionBudget::new(cap, warn_at)
                .map_err(|wrong| Problem::invalid("defaultBudgetCapUsd", wrong))?,
            default_auto_continue_config: self
                .default_auto_continue_config
                .over(&before.default_auto_continue_config),
            plan_approval_required: self.plan_approval_required.unwrap_or(before.plan_approval_required),
            execution_mode: self.execution_mode.unwrap_or(before.execution_mode),
            adapter: self.adapter.over(&before.adapter),
            adapter_options: options,
            request_timeout_seconds: self.request_timeout_seconds.over(&before.request_timeout_seconds),
            default_answer: self.default_answer.over(&before.default_answer),
            context_warn_at_percent: self.context_warn_at_percent.over(&before.context_warn_at_percent),
            context_policy: self.context_policy.over(&before.context_policy),
            idle_timeout_seconds: self.idle_timeout_seconds.over(&before.idle_timeout_seconds),
            paused_timeout_seconds: self.paused_timeout_seconds.over(&before.paused_timeout_seconds),
        })
    }
}

/// 200 with the template. Sessions that were started from it before keep what they were started with, but for its
/// prompt and its tools, which a new launch or a reload reads anew.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Id(id): Id<AgentTemplateId>,
    body: Body<UpdateTemplate>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    super::change(&app, &call, id, |it, cx| Ok(it.update(body.input.over(it.content())?, cx)?)).await
}
