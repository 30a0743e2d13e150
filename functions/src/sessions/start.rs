//! `POST /api/agents/sessions`: creates a session and tries to take a slot in the same transaction (ruling 20).

use std::collections::BTreeMap;

use axum::extract::State;
use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_domain::template::SessionOrder;
use pilothouse_domain::text::{AdapterName, ModelId, Objective, SessionName, WorkingDirectory};
use pilothouse_domain::value::{
    AutoContinueConfig, ContextPolicy, ExecutionMode, SessionBudget, ThinkingLevel,
};
use pilothouse_domain::{AgentSkillId, AgentTemplate, AgentTemplateId, SessionChainId, Usd};
use pilothouse_wire::coverage::CoveragePattern;
use schemars::JsonSchema;
use serde_json::Value;

use super::open::Opening;
use crate::api::Violation;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::config::skills_to_start_with;
use crate::edge::Problem;
use crate::edge::input::{Body, Said, Violations, distinct_ids, maybe, maybe_by_serde, maybe_parsed, parsed};

/// What a session is started with (S0 8.7 `StartAgentSessionCommand`; ruling 20 for the ad-hoc fields).
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartSession {
    /// Where the agent runs: an absolute path.
    #[deserr(try_from(String) = WorkingDirectory::try_from -> pilothouse_domain::text::InvalidText)]
    pub working_directory: WorkingDirectory,
    /// What it is to do.
    #[deserr(try_from(String) = Objective::try_from -> pilothouse_domain::text::InvalidText)]
    pub objective: Objective,
    /// The template that it is started from: what is left open here is as the template says.
    #[deserr(default, try_from(Option<String>) = maybe_parsed -> pilothouse_domain::InvalidId)]
    pub template_id: Option<AgentTemplateId>,
    /// Skills that are enabled for it, in order. Default: the template's.
    #[deserr(default, try_from(Option<Vec<String>>) = listed_skills -> Said)]
    pub skill_ids: Option<Vec<AgentSkillId>>,
    /// The most dollars that it may spend. Required, unless a template says it.
    #[deserr(default, try_from(Option<String>) = maybe_cap -> Said)]
    pub budget_cap_usd: Option<Usd>,
    /// At which percentage of the cap its owner is warned. Default: 80.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    #[schemars(range(min = 1, max = 99))]
    pub warn_at_percent: Option<u8>,
    /// Its name. Default: made from the objective.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub name: Option<SessionName>,
    /// Its model. Default: `default`, the adapter's own.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub model_id: Option<ModelId>,
    /// How deeply it thinks: `off`, `minimal`, `low`, `medium`, `high` or `max`. Default: as the adapter has it.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub thinking_level: Option<ThinkingLevel>,
    /// The adapter that drives it. Default: `script`.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    #[deserr(default, try_from(Option<Value>) = fitting_options -> Said)]
    pub adapter_options: Option<Value>,
    /// Tools that it may use. Default: the template's, or the adapter's own.
    #[deserr(default, try_from(Vec<String>) = tools -> Said)]
    #[schemars(length(max = 200), inner(length(min = 1, max = 200)))]
    pub allowed_tools: Vec<String>,
    /// How it comes to run. Default: `Standalone`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub execution_mode: Option<ExecutionMode>,
    /// Labels for its owner's own order: at most 20.
    #[deserr(default, try_from(BTreeMap<String, String>) = fitting_labels -> Said)]
    pub labels: BTreeMap<String, String>,
    /// Whether leaving plan mode waits for the owner. Default: yes.
    #[deserr(default)]
    pub plan_approval_required: Option<bool>,
    /// Seconds that a question or a plan may wait. Default: 24 hours.
    #[deserr(default, try_from(Option<u64>) = timeout -> Said)]
    #[schemars(range(min = 1, max = 2_592_000))]
    pub request_timeout_seconds: Option<u64>,
    /// The answer that stands in when nobody answers in time. Default: none, the session fails.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub default_answer: Option<pilothouse_domain::text::AnswerText>,
    /// How full the context window may get before a warning. Default: 85.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    #[schemars(range(min = 1, max = 99))]
    pub context_warn_at_percent: Option<u8>,
    /// Seconds after which it hibernates when it rests or waits and nothing is heard of it; 0: never. Default: 15 minutes.
    #[deserr(default, try_from(Option<u64>) = idle_time -> Said)]
    pub idle_timeout_seconds: Option<u64>,
    /// The same while it is Paused. Default: an hour.
    #[deserr(default, try_from(Option<u64>) = idle_time -> Said)]
    pub paused_timeout_seconds: Option<u64>,
    /// What is done when the context window fills up: `handoff` (the default) or `compact`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub context_policy: Option<ContextPolicy>,
    /// A chain of yours that it is to go on with: one whose current session is over. The cap is the chain's then.
    #[deserr(default, try_from(Option<String>) = maybe_parsed -> pilothouse_domain::InvalidId)]
    pub chain_id: Option<SessionChainId>,
    /// When it goes on by itself. Default: never.
    #[deserr(default, try_from(Option<Value>) = auto_continue -> Said)]
    pub auto_continue_config: Option<AutoContinueConfig>,
}

/// What is missing is named together with everything else that is wrong: a cap, where no template gives one.
#[derive(Debug, Clone)]
pub struct Start(pub StartSession);

impl Deserr<Violations> for Start {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        place: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let value: Value = Deserr::<Violations>::deserialize_from_value(value, place)?;
        let says = |field| value.get(field).is_some_and(|said| !said.is_null());
        let lacks_cap = value.is_object() && !says("budgetCapUsd") && !says("templateId");
        let read = StartSession::deserialize_from_value(value.into_value(), place);
        if !lacks_cap {
            return read.map(Self);
        }
        let mut all = read.err().unwrap_or_default();
        all.0.push(Violation { field: "budgetCapUsd".to_owned(), message: "is missing".to_owned() });
        Err(all)
    }
}

pub(crate) fn maybe_cap(text: Option<String>) -> Result<Option<Usd>, Said> {
    text.map(cap).transpose()
}

/// A list of skills that may be left out.
pub(crate) fn listed_skills(texts: Option<Vec<String>>) -> Result<Option<Vec<AgentSkillId>>, Said> {
    texts.map(distinct_ids).transpose()
}

pub(crate) fn cap(text: String) -> Result<Usd, Said> {
    let cap: Usd =
        parsed(text).map_err(|error: pilothouse_domain::money::InvalidUsd| Said(error.to_string()))?;
    SessionBudget::new(cap, SessionBudget::DEFAULT_WARN_AT_PERCENT)
        .map_err(|error| Said(error.to_string()))?;
    Ok(cap)
}

pub(crate) fn percent(value: Option<u64>) -> Result<Option<u8>, Said> {
    let fits = |n: u64| {
        u8::try_from(n)
            .ok()
            .filter(|n| (1..=99).contains(n))
            .ok_or_else(|| Said("must be 1 to 99".to_owned()))
    };
    value.map(fits).transpose()
}

const MONTH: u64 = 30 * 24 * 60 * 60;

pub(crate) fn idle_time(value: Option<u64>) -> Result<Option<u64>, Said> {
    match value {
        Some(seconds) if seconds > MONTH => Err(Said(format!("must be 0 to {MONTH} seconds"))),
        other => Ok(other),
    }
}

pub(crate) fn timeout(value: Option<u64>) -> Result<Option<u64>, Said> {
    match value {
        Some(seconds) if !(1..=MONTH).contains(&seconds) => {
            Err(Said(format!("must be 1 to {MONTH} seconds")))
        }
        other => Ok(other),
    }
}

fn tools(tools: Vec<String>) -> Result<Vec<String>, Said> {
    if tools.len() > 200 || tools.iter().any(|t| t.trim().is_empty() || t.chars().count() > 200) {
        return Err(Said("must be at most 200 names of 1 to 200 characters".to_owned()));
    }
    Ok(tools)
}

fn fitting_labels(labels: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Said> {
    let fits = |k: &str, v: &str| (1..=63).contains(&k.chars().count()) && v.chars().count() <= 200;
    if labels.len() > 20 || !labels.iter().all(|(k, v)| fits(k, v)) {
        return Err(Said(
            "must be at most 20 labels, with names of 1 to 63 and values of up to 200 characters".to_owned(),
        ));
    }
    Ok(labels)
}

pub(crate) fn fitting_options(value: Option<Value>) -> Result<Option<Value>, Said> {
    const LIMIT: usize = 64 * 1024;
    match value {
        Some(value) if value.to_string().len() > LIMIT => {
            Err(Said(format!("must be at most {LIMIT} bytes of JSON")))
        }
        other => Ok(other),
    }
}

pub(crate) fn auto_continue(value: Option<Value>) -> Result<Option<AutoContinueConfig>, Said> {
    let Some(config) = maybe_by_serde::<AutoContinueConfig>(value)? else { return Ok(None) };
    let all = |wrong: Vec<_>| wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    config.check().map_err(|wrong| Said(all(wrong)))?;
    for criterion in &config.validation_criteria {
        CoveragePattern::new(criterion.coverage_pattern.as_deref())
            .map_err(|wrong| Said(wrong.to_string()))?;
    }
    Ok(Some(config))
}

impl StartSession {
    fn order(&self) -> SessionOrder {
        SessionOrder {
            working_directory: self.working_directory.clone(),
            objective: self.objective.clone(),
            name: self.name.clone(),
            model_id: self.model_id.clone(),
            thinking_level: self.thinking_level,
            budget_cap_usd: self.budget_cap_usd,
            warn_at_percent: self.warn_at_percent,
            skill_ids: self.skill_ids.clone(),
            auto_continue: self.auto_continue_config.clone(),
            execution_mode: self.execution_mode,
            adapter: self.adapter.clone(),
            adapter_options: self.adapter_options.clone(),
            allowed_tools: self.allowed_tools.clone(),
            labels: self.labels.clone(),
            plan_approval_required: self.plan_approval_required,
            request_timeout_seconds: self.request_timeout_seconds,
            default_answer: self.default_answer.clone(),
            context_warn_at_percent: self.context_warn_at_percent,
            idle_timeout_seconds: self.idle_timeout_seconds,
            paused_timeout_seconds: self.paused_timeout_seconds,
            context_policy: self.context_policy,
        }
    }

    /// The template that is named, if one is. One that is not there is a wrong input.
    async fn template(&self, app: &App, call: &Call) -> Result<Option<AgentTemplate>, Problem> {
        let Some(id) = self.template_id else { return Ok(None) };
        let template = app.store.owned::<AgentTemplate>(&call.owner, id).await?;
        let template =
            template.ok_or_else(|| Problem::invalid("templateId", "there is no such template"))?.value;
        template.check_usable()?;
        Ok(Some(template))
    }
}

/// 201 with a slot; 202, Queued, without. Both carry the session's API key, which is shown this once.
///
/// From a template, it has the defaults of the template as it is now (S0 8.7); 409 `template-inactive` while that is
/// deactivated.
pub async fn handle(State(app): State<App>, call: Call, body: Body<Start>) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let Start(input) = body.input;
    if let Some(mut answer) = call.earlier_answer(&app.store).await? {
        show_key(&app, &mut answer);
        return Ok(answer);
    }
    let skills = input.skill_ids.as_deref().unwrap_or_default();
    skills_to_start_with(&app, &call.owner, "skillIds", skills, &input.allowed_tools).await?;
    let template = input.template(&app, &call).await?;
    let mut plan = app.plan_session(&call.owner, input.order(), template.as_ref()).await?;
    plan.chain = input.chain_id;
    app.open_for_owner(&call, &plan, Ok).await
}

/// 201 with a slot; 202, Queued, without. The key is shown last, and is not stored with the answer.
pub(crate) fn started(opening: &Opening) -> Result<Answer, Problem> {
    opening.answer(&opening.view())
}

/// The key is derived, never stored, so that a replayed answer can show it again (ruling 8).
pub(crate) fn show_key(app: &App, answer: &mut Answer) {
    let id = answer.body.pointer("/session/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let (Some(id), Some(object)) = (id, answer.body.as_object_mut()) {
        object.insert("apiKey".to_owned(), Value::String(app.secret.api_key(id, 0)));
    }
}
