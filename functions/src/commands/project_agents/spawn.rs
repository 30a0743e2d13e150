//! `POST /api/agents/spawn`: creates an agent of a project and starts its session (S2 `spawn`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::Violation;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::projects::{AgentView, SpawnedAgent};
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::COMMAND_WITH_KEY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::Body;
use pilothouse_app::session_config::skills_to_start_with;
use pilothouse_app::session_start::{SessionPlan, StartRoom, StartState, show_key};
use pilothouse_app::ticks::ProjectTime;
use pilothouse_app::unit_of_work::Decision;
use pilothouse_app::{App, FreshIds};
use pilothouse_domain::escalation::TripSubject;
use pilothouse_domain::project_agent::{AgentBrief, NewAgent, approval_bypasses};
use pilothouse_domain::session::{SessionError, judge_input};
use pilothouse_domain::template::SessionSpec;
use pilothouse_domain::text::{Objective, SessionName, WorkingDirectory};
use pilothouse_domain::value::{AllowedModels, ModelField};
use pilothouse_domain::{
    AgentSkillId, AgentTemplateId, DomainContext, Events, IdSource as _, Project, ProjectAgent,
    ProjectAgentId, ProjectId, Usd,
};
use pilothouse_store::LoadedAggregate;
use schemars::JsonSchema;

use super::brief_changes::BriefChanges;
use crate::fields::{listed_skills, maybe_cap, percent};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-spawn", Verb::Post, "/api/agents/spawn", |verb| verb.route(spawn_agent))
        .owner()
        .summary("Create an agent of a project and start its session")
        .input::<SpawnAgent>()
        .output::<SpawnedAgent>(&[201, 202])
        .requires(COMMAND_WITH_KEY);

/// A new agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct SpawnAgent {
    /// The project. An owner with one project may leave it out.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// What the agent is, may do and must follow. `role` and `workstream` are required unless the template has them.
    pub brief: BriefChanges,
    /// The objective of the agent's session.
    pub objective: Objective,
    /// The absolute path of the directory that the agent works in.
    pub working_directory: WorkingDirectory,
    /// The name of the session. Default: the beginning of the objective.
    #[deserr(default)]
    pub name: Option<SessionName>,
    /// The template that supplies what the request leaves open.
    #[deserr(default)]
    pub template_id: Option<AgentTemplateId>,
    /// The budget cap, in US dollars. Required without a template.
    #[deserr(default, try_from(Option<String>) = maybe_cap -> FieldError)]
    pub budget_cap_usd: Option<Usd>,
    /// The percentage of the cap at which the owner is warned. Default: that of the template, or 80.
    #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
    pub warn_at_percent: Option<u8>,
    /// Whether the agent may run although its cost is unknown, so that the cap cannot be enforced.
    #[deserr(default)]
    pub allow_unmetered: Option<bool>,
    /// Ids of the skills that are enabled, in order. Default: those of the template.
    #[deserr(default, try_from(Option<Vec<String>>) = listed_skills -> FieldError)]
    pub skill_ids: Option<Vec<AgentSkillId>>,
}

/// What the start of an agent depends on.
struct SpawnState {
    start: StartState,
    project: LoadedAggregate<Project>,
    time: ProjectTime,
}

impl SpawnAgent {
    fn spec(&self, brief: &AgentBrief) -> SessionSpec {
        let options = brief.provider_config.clone();
        SessionSpec {
            name: self.name.clone(),
            model_id: brief.model_preference.clone(),
            budget_cap_usd: self.budget_cap_usd,
            warn_at_percent: self.warn_at_percent,
            allow_unmetered: self.allow_unmetered,
            skill_ids: self.skill_ids.clone(),
            adapter: brief.adapter.clone(),
            adapter_options: Some(options).filter(|options| !options.is_null()),
            allowed_tools: brief.allowed_tools.clone(),
            ..SessionSpec::new(self.working_directory.clone(), self.objective.clone())
        }
    }
}

/// Responds with 201 when the session has a slot, or with 202 when it is Queued. Both responses contain the session's API key,
/// which is not shown again. An objective that a guardrail of the brief blocks is refused with 409 `guardrail-blocked`.
async fn spawn_agent(
    State(app): State<App>,
    command: CommandContext,
    body: Body<SpawnAgent>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let input = body.input;
    if let Some(mut response) = command.earlier_response(&app.store).await? {
        show_key(&app, &mut response);
        return Ok(response);
    }
    let project = app.chosen_project(&command.owner, input.project_id).await?.value;
    project.ensure_open()?;
    let template = app.template_to_start_with(&command.owner, input.template_id).await?;
    let defaults = template.as_ref().map(|template| template.content().brief_defaults.clone());
    let brief = input.brief.over_defaults(&defaults.unwrap_or_default(), "brief")?;
    let brief = brief.checked(&project, "brief")?;
    let skills = input.skill_ids.as_deref().unwrap_or_default();
    skills_to_start_with(&app, &command.owner, "skillIds", skills, &brief.allowed_tools).await?;
    let plan = app.plan_session(&command.owner, input.spec(&brief), template.as_ref()).await;
    let mut plan = plan.map_err(|problem| match problem {
        Problem::ModelNotAllowed(wrong) => Problem::invalid(&field_of_model(wrong.field, &brief), wrong),
        other => other,
    })?;
    ensure_asks(&plan)?;
    let labels = &plan.session.new.settings.labels;
    let warnings = app.check_workspace(&command.owner, labels, &brief, "brief.").await?;
    app.refuse_unmetered(&plan.session.new).await?;
    plan.events.extend(judge_objective(&app, &command, &project, &brief, &input.objective).await?);
    let new = NewAgent {
        id: ProjectAgentId::new(FreshIds.fresh()),
        owner_id: command.owner.clone(),
        project_id: project.id(),
        brief,
        session_id: plan.session.new.id,
    };
    plan.project = Some(new.membership());
    let room = StartRoom::default();
    let load = async || {
        app.ensure_covers_start(&project).await?;
        let start = app.load_start(&plan).await?;
        let time = app.project_time(project.id()).await?.ok_or_else(Problem::no_project)?;
        let project = app.chosen_project(&command.owner, Some(project.id())).await?;
        Ok(SpawnState { start, project, time })
    };
    let decide = |state, ctx: &mut DomainContext<'_>| {
        decide(&app, &command, state, &plan, (&new, &warnings), &room, ctx)
    };
    let mut response = app.unit_of_work().run_command(&command, load, decide).await?;
    show_key(&app, &mut response);
    Ok(response)
}

/// The field of the request that names a model.
fn field_of_model(field: ModelField, brief: &AgentBrief) -> String {
    match field {
        ModelField::Model => "brief.modelPreference".to_owned(),
        // The template supplies the options if the brief has none.
        ModelField::Fallback if brief.provider_config.is_null() => "templateId".to_owned(),
        ModelField::Fallback => format!("brief.providerConfig.{}", AllowedModels::FALLBACK),
    }
}

/// Judges the objective by the guardrails of the brief. A refusal is written to the decision log of the project, because no agent is
/// created whose journal could have it.
async fn judge_objective(
    app: &App,
    command: &CommandContext,
    project: &Project,
    brief: &AgentBrief,
    objective: &Objective,
) -> Result<Events, Problem> {
    match judge_input(brief.input_guardrails(), TripSubject::Objective, objective.as_str()) {
        Ok(tripped) => Ok(tripped),
        Err(blocked) => {
            app.log_refused_objective(command, project, &blocked).await?;
            Err(SessionError::from(blocked).into())
        }
    }
}

/// Refuses options of the template that let the agent act without asking. Those of the brief have been checked.
fn ensure_asks(plan: &SessionPlan) -> Result<(), Problem> {
    let options = &plan.session.new.settings.adapter_options;
    let of_template = approval_bypasses("adapterOptions", options).into_iter().map(|(path, violation)| {
        Violation { field: "templateId".to_owned(), message: format!("`{path}` of the template {violation}") }
    });
    let violations: Vec<_> = of_template.collect();
    if violations.is_empty() { Ok(()) } else { Err(Problem::Invalid(violations)) }
}

/// Adds the agent to its project and opens its session, in one transaction.
fn decide(
    app: &App,
    command: &CommandContext,
    SpawnState { start, mut project, time }: SpawnState,
    plan: &SessionPlan,
    (new, warnings): (&NewAgent, &[String]),
    room: &StartRoom,
    ctx: &mut DomainContext<'_>,
) -> Result<Decision<CommandResponse>, Problem> {
    let of_project = project.value.add_agent(new.id, new.brief.workstream.clone(), ctx)?;
    let tick = time.tick(ctx.now)?;
    let (agent, of_agent) = ProjectAgent::spawn(new.clone(), &project.value.definition().trust, tick, ctx);
    let agent = LoadedAggregate::new(agent);
    let mut opening = app.prepare_plan(start, &command.cause(), plan.clone(), ctx)?;
    room.reserve_for(app, &opening)?;
    app.record_aggregate(&mut opening.commit, &project, command.cause(), of_project)?;
    app.record_aggregate(&mut opening.commit, &agent, command.cause(), of_agent)?;
    let session = &opening.loaded.conversation.session;
    let view = SpawnedAgent {
        agent: AgentView::of(&agent.value, session, agent.next_version()),
        started: opening.view(),
        warnings: warnings.to_vec(),
    };
    let response = opening.response(&view)?;
    Ok(Decision::Commit(opening.commit, response))
}
