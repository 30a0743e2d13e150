//! Commands on the agents of projects (S2, "Frontend REST API"; decision 71). Pause, resume and kill are commands on the agent's
//! current session.

pub mod brief_changes;
pub mod kill;
pub mod pause;
pub mod resume;
pub mod spawn;
pub mod update_brief;

use pilothouse_api::projects::AgentView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::http::Problem;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::session::{Grace, SessionError};
use pilothouse_domain::{DomainContext, Events, ProjectAgent, ProjectAgentId};
use pilothouse_store::LoadedAggregate;

/// Changes the current session of an agent by one domain call, and responds with the agent.
async fn change_current_session(
    app: &App,
    command: &CommandContext,
    id: ProjectAgentId,
    decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
) -> Result<CommandResponse, Problem> {
    let agent = app.load_aggregate::<ProjectAgent>(command, id).await?;
    let session = agent.value.current_session_id();
    app.change_session_with(command, session, decide, |it| show(&agent, it)).await
}

/// The same for a change that makes the agent act. Refused while a brake stops the session.
async fn change_current_session_unless_braked(
    app: &App,
    command: &CommandContext,
    id: ProjectAgentId,
    decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
) -> Result<CommandResponse, Problem> {
    let agent = app.load_aggregate::<ProjectAgent>(command, id).await?;
    let session = agent.value.current_session_id();
    app.change_session_unless_braked_with(command, session, decide, |it| show(&agent, it)).await
}

/// Most sessions that continue the work of an agent while it is being ended.
const MAX_CONTINUATIONS: usize = 3;

/// Ends the current session of an agent. If another session continues the work meanwhile, that one ends.
pub(crate) async fn kill_current_session(
    app: &App,
    command: &CommandContext,
    id: ProjectAgentId,
    grace: Grace,
) -> Result<CommandResponse, Problem> {
    let kill = async || change_current_session(app, command, id, |it, ctx| Ok(it.kill(grace, ctx)?)).await;
    for _ in 1..MAX_CONTINUATIONS {
        match kill().await {
            Err(Problem::Session(SessionError::Continued { .. })) => {}
            killed => return killed,
        }
    }
    kill().await
}

fn show(agent: &LoadedAggregate<ProjectAgent>, it: &Conversation) -> Result<CommandResponse, Problem> {
    let status = CommandResponse::session(it)?.status;
    CommandResponse::new(status, None, &AgentView::of(&agent.value, &it.session, agent.version))
}
