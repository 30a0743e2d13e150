//! Commands on the agents of projects (S2, "Frontend REST API"; decision 71). Pause, resume and kill are commands on the agent's
//! current session.

pub mod input;
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
use pilothouse_domain::{DomainContext, Events, ProjectAgent, ProjectAgentId};

/// Changes the current session of an agent by one domain call, and responds with the agent.
async fn change_current_session(
    app: &App,
    command: &CommandContext,
    id: ProjectAgentId,
    decide: impl FnMut(&mut Conversation, &mut DomainContext<'_>) -> Result<Events, Problem>,
) -> Result<CommandResponse, Problem> {
    let agent =
        app.store.aggregate::<ProjectAgent>(&command.owner, id).await?.ok_or_else(Problem::no_agent)?;
    let show = |it: &Conversation| {
        let status = CommandResponse::session(it)?.status;
        let view = AgentView::of(&agent.value, &it.session, agent.version);
        CommandResponse::new(status, None, &view)
    };
    app.change_session_with(command, agent.value.current_session_id(), decide, show).await
}
