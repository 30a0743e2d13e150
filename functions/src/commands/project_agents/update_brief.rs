//! `PATCH /api/agents/{id}/brief`: changes the brief of an agent (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_app::unit_of_work::Decision;
use pilothouse_domain::project_agent::AgentBrief;
use pilothouse_domain::value::AllowedModels;
use pilothouse_domain::{DomainContext, Project, ProjectAgent, ProjectAgentId};
use pilothouse_store::{Commit, LoadedAggregate, LoadedConversation};

use super::brief_changes::BriefChanges;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-update-brief", Verb::Patch, "/api/agents/{id}/brief", |verb| {
        verb.route(update_brief)
    })
    .owner()
    .summary("Update fields of the brief of an agent of a project")
    .input::<BriefChanges>()
    .output::<AgentView>(&[200]);

/// An agent with its changed brief and its current session.
struct UpdateState {
    agent: LoadedAggregate<ProjectAgent>,
    brief: AgentBrief,
    project: Project,
    session: LoadedConversation,
}

/// Responds with 200 and the agent. The session receives the changed brief with its next run or reload. A removed tool and a changed
/// rule hold for the next call; another model is used at once, if the agent can change it while it runs; another adapter drives the
/// next session of the agent. The workstream of an agent cannot be changed. Requirements that the place of its session does not satisfy
/// are refused, because a session stays where it has run.
async fn update_brief(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    body: Body<BriefChanges>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let changes = body.input;
    let load = async || {
        let agent = app.load_aggregate::<ProjectAgent>(&command, id).await?;
        let project = app.chosen_project(&command.owner, Some(agent.value.project_id())).await?.value;
        let session = app.load_session(&command, agent.value.current_session_id()).await?;
        let before = agent.value.brief();
        let brief = changes.over(before)?.checked(&project, "")?;
        if brief.workspace_requirements != before.workspace_requirements {
            app.check_place(&session.conversation.session, &brief, "").await?;
        }
        Ok(UpdateState { agent, brief, project, session })
    };
    let decide = |state: UpdateState, ctx: &mut DomainContext<'_>| decide(&app, &command, state, ctx);
    app.unit_of_work().run_command(&command, load, decide).await
}

fn decide(
    app: &App,
    command: &CommandContext,
    UpdateState { mut agent, brief, project, mut session }: UpdateState,
    ctx: &mut DomainContext<'_>,
) -> Result<Decision<CommandResponse>, Problem> {
    command.check_version(agent.version)?;
    project.ensure_open()?;
    let before = agent.value.brief();
    if brief.workstream != before.workstream {
        return Err(Problem::invalid("workstream", "of an agent cannot be changed; spawn another agent"));
    }
    let other_model =
        brief.model_preference.clone().filter(|model| before.model_preference.as_ref() != Some(model));
    let limits = [&app.allowed_models, session.conversation.session.allowed_models()];
    if let Some(model) = &other_model {
        let allowed = limits.into_iter().try_for_each(|models| models.check(model));
        allowed.map_err(|wrong| Problem::invalid("modelPreference", wrong))?;
    }
    if brief.provider_config != before.provider_config {
        let allowed = limits.into_iter().try_for_each(|models| models.check_options(&brief.provider_config));
        let field = format!("providerConfig.{}", AllowedModels::FALLBACK);
        allowed.map_err(|wrong| Problem::invalid(&field, wrong))?;
    }
    let events = agent.value.update_brief(brief, ctx);
    if events.is_empty() {
        let view = AgentView::of(&agent.value, &session.conversation.session, agent.version);
        return Ok(Decision::Unchanged(CommandResponse::ok(agent.version, &view)?));
    }
    let mut commit = Commit::new();
    app.record_aggregate(&mut commit, &agent, command.cause(), events)?;
    if let Some(model) = other_model {
        let events = session.conversation.session.prefer_model(&model, ctx);
        if !events.is_empty() {
            let events = app.with_consequences(&mut session.conversation, events, ctx);
            app.record(&mut commit, &mut session, command.cause(), events)?;
        }
    }
    let version = agent.next_version();
    let view = AgentView::of(&agent.value, &session.conversation.session, version);
    Ok(Decision::Commit(commit, CommandResponse::ok(version, &view)?))
}
