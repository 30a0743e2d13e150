//! `GET /api/agents/sessions/{id}/conversations`: lists the conversations of the agent, their branches and labels (S1 5, 9).

use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_domain::value::AgentConversations;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "records-conversations",
    Verb::Get,
    "/api/agents/sessions/{id}/conversations",
    |verb| verb.route(get_conversations),
)
.owner()
.summary("List the conversations of an agent within its session")
.output::<AgentConversations>(&[200]);

/// Responds with 200. The lists are empty while the agent has a single branch without labels. At most the 50 latest branches and
/// labels are listed.
async fn get_conversations(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    let conversations = session.conversations().cloned().unwrap_or_default();
    CommandResponse::ok(session.control_version(), &conversations)
}
