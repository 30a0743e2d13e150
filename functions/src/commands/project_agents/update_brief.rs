//! `PATCH /api/agents/{id}/brief`: replaces the brief of an agent (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Id, Problem};
use pilothouse_domain::{DomainContext, ProjectAgent, ProjectAgentId};

use super::input::BriefInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agents-update-brief", Verb::Patch, "/api/agents/{id}/brief", |verb| {
        verb.route(update_brief)
    })
    .owner()
    .summary("Replace the brief of an agent of a project")
    .input::<BriefInput>()
    .output::<AgentView>(&[200]);

/// Responds with 200 and the agent. The session receives the changed brief with its next run or reload. Model, tools, adapter and
/// its options apply to the next session of the agent. The workstream of an agent cannot be changed.
async fn update_brief(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectAgentId>,
    body: Body<BriefInput>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let agent = app.load_aggregate::<ProjectAgent>(&command, id).await?.value;
    let project = app.chosen_project(&command.owner, Some(agent.project_id())).await?.value;
    project.ensure_open()?;
    let brief = body.input.checked(&project, "")?;
    if brief.workstream != agent.brief().workstream {
        return Err(Problem::invalid("workstream", "of an agent cannot be changed; spawn another agent"));
    }
    let session = app.session_of(&command.owner, agent.current_session_id()).await?;
    let decide =
        |agent: &mut ProjectAgent, ctx: &mut DomainContext<'_>| Ok(agent.update_brief(brief.clone(), ctx));
    let show = |agent: &ProjectAgent, version: u64| {
        CommandResponse::ok(version, &AgentView::of(agent, &session, version))
    };
    app.change_aggregate(&command, id, decide, show).await
}
