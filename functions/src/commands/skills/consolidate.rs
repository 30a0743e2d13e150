//! `POST /api/agents/skills/{id}/consolidate`: starts a session that merges a skill's memory pills into its instructions
//! (S0 8.7 `StartSkillConsolidationCommand`; decision 52).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::sessions::StartedSession;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::COMMAND_WITH_KEY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_app::session_start::show_key;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::session::{AgentOptions, NewSession, SessionSettings};
use pilothouse_domain::text::{AdapterName, ModelId, Objective, SessionName, WorkingDirectory, cut};
use pilothouse_domain::value::SessionBudget;
use pilothouse_domain::{AgentSessionId, AgentSkill, AgentSkillId, DomainContext, Events, Usd};
use pilothouse_store::{LoadedAggregate, LoadedPool};
use schemars::JsonSchema;
use serde_json::Value;

use crate::fields::{cap, fitting_options};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("skills-consolidate", Verb::Post, "/api/agents/skills/{id}/consolidate", |verb| {
        verb.route(consolidate_skill)
    })
    .owner()
    .summary("Start a session that consolidates a skill's memory pills")
    .input::<Consolidate>()
    .output::<StartedSession>(&[201, 202])
    .requires(COMMAND_WITH_KEY);

/// The parameters of a consolidation session.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consolidate {
    /// The working directory of the agent: an absolute path.
    pub working_directory: WorkingDirectory,
    /// The budget cap in US dollars.
    #[deserr(try_from(String) = cap -> FieldError)]
    pub budget_cap_usd: Usd,
    /// The model of the agent. Default: the adapter's default model.
    #[deserr(default)]
    pub model_id: Option<ModelId>,
    /// The adapter that drives the agent. Default: the server's default adapter.
    #[deserr(default)]
    pub adapter: Option<AdapterName>,
    /// Options that the adapter defines. At most 64 KiB of JSON.
    #[deserr(default, try_from(Option<Value>) = fitting_options -> FieldError)]
    pub adapter_options: Option<Value>,
}

impl Consolidate {
    fn new_session(
        &self,
        id: AgentSessionId,
        skill: &AgentSkill,
        adapter: AdapterName,
    ) -> Result<NewSession, Problem> {
        let objective = format!(
            "Skill Improvement: fold what agents learned, {} memory pills, into the instructions of the skill \"{}\".",
            skill.active_pills().len(),
            skill.name()
        );
        let defaults = SessionSettings::new(adapter);
        Ok(NewSession {
            id,
            owner_id: skill.owner_id().clone(),
            template_id: None,
            name: SessionName::parse(cut(&format!("Improve {}", skill.name()), SessionName::MAX)).ok(),
            working_directory: self.working_directory.clone(),
            objective: Objective::parse(objective).map_err(Problem::internal)?,
            model_id: self.model_id.clone().unwrap_or_else(ModelId::adapter_default),
            budget: SessionBudget::new(self.budget_cap_usd, SessionBudget::DEFAULT_WARN_AT_PERCENT)
                .map_err(Problem::internal)?,
            auto_continue: None,
            settings: SessionSettings {
                adapter_options: self.adapter_options.clone().unwrap_or(defaults.adapter_options),
                agent: AgentOptions { plan_approval_required: false, ..AgentOptions::default() },
                ..defaults
            },
        })
    }
}

/// A skill, with the pool of its owner.
struct ConsolidationState {
    skill: LoadedAggregate<AgentSkill>,
    pool: LoadedPool,
}

/// Responds with 201 and the session, or with 202 when it waits for a slot. Responds with 409 `consolidation-under-way` or
/// `nothing-to-consolidate` when the skill cannot be consolidated. One transaction commits the session and the skill.
async fn consolidate_skill(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<AgentSkillId>,
    body: Body<Consolidate>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let adapter = app.adapter_or_default(body.input.adapter.clone())?;
    app.allowed_models.check(&body.input.model_id.clone().unwrap_or_else(ModelId::adapter_default))?;
    app.allowed_models.check_options(body.input.adapter_options.as_ref().unwrap_or(&Value::Null))?;
    let load = async || {
        let skill = app.load_aggregate::<AgentSkill>(&command, id).await?;
        Ok(ConsolidationState { skill, pool: app.store.pool(&command.owner).await? })
    };
    let decide = |ConsolidationState { mut skill, pool }: ConsolidationState, ctx: &mut DomainContext<'_>| {
        command.check_version(skill.version)?;
        let session_id = ctx.session_id();
        let events = skill.value.start_consolidation(session_id, ctx)?;
        let new = body.input.new_session(session_id, &skill.value, adapter.clone())?;
        let mark = |it: &mut Conversation, _: &mut DomainContext<'_>| {
            it.session.mark_as_consolidation(id);
            Ok(Events::new())
        };
        let mut opening = app.prepare_session(pool, command.cause(), new, ctx, mark)?;
        app.record_aggregate(&mut opening.commit, &skill, command.cause(), events)?;
        let response = opening.response(&opening.view())?;
        Ok(Decision::Commit(opening.commit, response))
    };
    let mut response = app.unit_of_work().run_command(&command, load, decide).await?;
    show_key(&app, &mut response);
    Ok(response)
}
