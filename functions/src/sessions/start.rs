//! `POST /api/agents/sessions`: creates a session and tries to take a slot in the same transaction (ruling 20).

use std::collections::BTreeMap;

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::Cause;
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::session::{NewSession, SessionSettings};
use pilothouse_domain::text::{AdapterName, ModelId, Objective, SessionName, WorkingDirectory};
use pilothouse_domain::value::{AutoContinueConfig, ContextPolicy, SessionBudget};
use pilothouse_domain::{AgentSessionId, AgentSkillId, IdSource as _, Occasion, SessionChainId, Usd};
use pilothouse_store::{CommitError, Store};
use pilothouse_wire::coverage::CoveragePattern;
use schemars::JsonSchema;
use serde_json::Value;

use super::open::Opening;
use crate::api::Violation;
use crate::api::pool::PoolView;
use crate::api::sessions::{SessionView, StartedSession};
use crate::app::{App, FreshIds};
use crate::change::{Answer, Call};
use crate::config::skills_to_start_with;
use crate::edge::Problem;
use crate::edge::input::{Body, Said, Violations, distinct_ids, maybe, maybe_by_serde, maybe_parsed, parsed};
use crate::sessions::attach::Attachment;

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
    /// The most dollars that it may spend.
    #[deserr(try_from(String) = cap -> Said)]
    pub budget_cap_usd: Usd,
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
    /// The adapter that drives it. Default: `script`.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub adapter: Option<AdapterName>,
    /// What the adapter alone understands.
    #[deserr(default, try_from(Option<Value>) = fitting_options -> Said)]
    pub adapter_options: Option<Value>,
    /// Tools that it may use. Default: the adapter's own.
    #[deserr(default, try_from(Vec<String>) = tools -> Said)]
    #[schemars(length(max = 200), inner(length(min = 1, max = 200)))]
    pub allowed_tools: Vec<String>,
    /// Skills that it starts with, in their order: at most 20, active ones. Default: none.
    #[deserr(default, try_from(Vec<String>) = distinct_ids -> Said)]
    pub skill_ids: Vec<AgentSkillId>,
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

fn idle_time(value: Option<u64>) -> Result<Option<u64>, Said> {
    match value {
        Some(seconds) if seconds > MONTH => Err(Said(format!("must be 0 to {MONTH} seconds"))),
        other => Ok(other),
    }
}

fn timeout(value: Option<u64>) -> Result<Option<u64>, Said> {
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
    fn settings(&self) -> SessionSettings {
        let defaults = SessionSettings::default();
        SessionSettings {
            adapter: self.adapter.clone().unwrap_or(defaults.adapter),
            adapter_options: self.adapter_options.clone().unwrap_or(defaults.adapter_options),
            allowed_tools: self.allowed_tools.clone(),
            labels: self.labels.clone(),
            plan_approval_required: self.plan_approval_required.unwrap_or(defaults.plan_approval_required),
            request_timeout_seconds: self.request_timeout_seconds.unwrap_or(defaults.request_timeout_seconds),
            default_answer: self.default_answer.as_ref().map(|a| a.as_str().to_owned()),
            context_warn_at_percent: self.context_warn_at_percent.unwrap_or(defaults.context_warn_at_percent),
            context_policy: self.context_policy.unwrap_or_default(),
            max_retries: defaults.max_retries,
            idle_timeout_seconds: self.idle_timeout_seconds.unwrap_or(defaults.idle_timeout_seconds),
            paused_timeout_seconds: self.paused_timeout_seconds.unwrap_or(defaults.paused_timeout_seconds),
        }
    }

    fn new_session(&self, id: AgentSessionId, call: &Call) -> Result<NewSession, Problem> {
        let warn_at = self.warn_at_percent.unwrap_or(SessionBudget::DEFAULT_WARN_AT_PERCENT);
        let wrong = |error: pilothouse_domain::value::InvalidBudget| {
            Problem::Invalid(vec![Violation { field: "budgetCapUsd".to_owned(), message: error.to_string() }])
        };
        let model = match &self.model_id {
            Some(model) => model.clone(),
            None => ModelId::parse("default").map_err(Problem::internal)?,
        };
        Ok(NewSession {
            id,
            owner_id: call.owner.clone(),
            template_id: None,
            name: self.name.clone(),
            working_directory: self.working_directory.clone(),
            objective: self.objective.clone(),
            model_id: model,
            budget: SessionBudget::new(self.budget_cap_usd, warn_at).map_err(wrong)?,
            auto_continue: self.auto_continue_config.clone(),
            settings: self.settings(),
        })
    }
}

/// 201 with a slot; 202, Queued, without. Both carry the session's API key, which is shown this once.
pub async fn handle(State(app): State<App>, call: Call, body: Body<StartSession>) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let skills = &body.input.skill_ids;
    for attempt in 0..64 {
        if let Some(mut answer) = call.earlier_answer(&app.store).await? {
            show_key(&app, &mut answer);
            return Ok(answer);
        }
        let id = AgentSessionId::new(FreshIds.fresh());
        let cause = Cause::Owner { function: call.function.to_owned() };
        let new = body.input.new_session(id, &call)?;
        skills_to_start_with(&app, &call.owner, skills, &body.input.allowed_tools).await?;
        let mut attachment = match body.input.chain_id {
            Some(chain) => Some(Attachment::load(&app, &call, chain).await?),
            None => None,
        };
        let shape = |it: &mut Conversation, _: &mut SessionPool, cx: &mut Occasion<'_>| {
            it.session.equip(skills)?;
            attachment.as_mut().map_or(Ok(Vec::new()), |attachment| attachment.admit(it, cx))
        };
        let mut opening = app.prepare_session(&call.owner, cause.clone(), new, shape).await?;
        if let Some(attachment) = attachment {
            attachment.record(&app, &mut opening.commit, &cause)?;
        }

        let mut answer = started(&opening)?;
        call.keep_answer(&mut opening.commit, &answer, &app)?;
        match app.store.commit(opening.commit).await {
            Ok(()) => {
                show_key(&app, &mut answer);
                return Ok(answer);
            }
            Err(CommitError::Conflict | CommitError::AnswerExists) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// 201 with a slot; 202, Queued, without. The key is shown last, and is not stored with the answer.
pub(crate) fn started(opening: &Opening) -> Result<Answer, Problem> {
    let session = &opening.loaded.conversation.session;
    let started = StartedSession {
        session: SessionView::of(session),
        api_key: String::new(),
        pool: opening.waits.then(|| PoolView::of(&opening.pool.value, opening.pool.version + 1)),
    };
    let status = if opening.waits { StatusCode::ACCEPTED } else { StatusCode::CREATED };
    Answer::new(status, Some(session.control_version()), &started)
}

/// The key is derived, never stored, so that a replayed answer can show it again (ruling 8).
pub(crate) fn show_key(app: &App, answer: &mut Answer) {
    let id = answer.body.pointer("/session/id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    if let (Some(id), Some(object)) = (id, answer.body.as_object_mut()) {
        object.insert("apiKey".to_owned(), Value::String(app.secret.api_key(id, 0)));
    }
}
