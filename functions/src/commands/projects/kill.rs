//! `POST /api/projects/{id}/kill`: cancels the sessions of the active agents of a project (S2 `killAll`), and leaves the recovery of
//! crashed agents to a person.

use axum::Json;
use axum::extract::State;
use pilothouse_api::projects::KilledAgents;
use pilothouse_app::App;
use pilothouse_app::command::CommandContext;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, NoBody, Problem};
use pilothouse_domain::session::Grace;
use pilothouse_domain::{Project, ProjectId};

use crate::commands::project_agents::kill_current_session;
use crate::free_decisions::crash;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-kill", Verb::Post, "/api/projects/{id}/kill", |verb| verb.route(kill_agents))
        .owner()
        .summary("Cancel the sessions of the active agents of a project")
        .output::<KilledAgents>(&[200]);

/// Responds with 200 and the agents that had the status `running`, `paused` or `waiting_on_human`. The last one includes agents whose
/// context is full and whose work waits for its continuation. Each session is cancelled in a separate transaction; a repeated request
/// cancels those that remain. An agent that crashed before does not recover without a person.
async fn kill_agents(
    State(app): State<App>,
    command: CommandContext,
    Id(id): Id<ProjectId>,
    _: NoBody,
) -> Result<Json<KilledAgents>, Problem> {
    let project = app.load_aggregate::<Project>(&command, id).await?.value;
    let stop = CommandContext::for_server(command.owner.clone(), command.function);
    let mut agents = Vec::new();
    for agent in project.agents().keys() {
        // First: after this, no recovery makes the agent active without being seen below.
        crash::leave_to_person(&app, *agent).await?;
        if !app.agent_view(&command.owner, *agent).await?.is_active() {
            continue;
        }
        match kill_current_session(&app, &stop, *agent, Grace::Unlimited).await {
            Ok(_) => agents.push(app.agent_view(&command.owner, *agent).await?),
            // The session ended meanwhile, perhaps by a crash.
            Err(Problem::Session(_)) => crash::leave_to_person(&app, *agent).await?,
            Err(problem) => return Err(problem),
        }
    }
    Ok(Json(KilledAgents { agents }))
}
