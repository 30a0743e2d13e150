//! `POST /api/agents/sessions/{id}/new-conversation`: begins an empty conversation within the session (S1 5 `NewSession`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::NoBody;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::value::Adjustment;

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "sessions-new-conversation",
    Verb::Post,
    "/api/agents/sessions/{id}/new-conversation",
    |verb| verb.route(begin_conversation),
)
.owner()
.summary("Begin a new conversation within a session")
.output::<SessionView>(&[202]);

/// Responds with 202. The agent begins the conversation later, and keeps the present one as its parent. A hibernated session is
/// woken first. The budget and the files of the session stay the same.
async fn begin_conversation(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    let begin = [Adjustment::NewConversation {}];
    app.change_session(&command, id, |it, ctx| Ok(it.session.adjust(&begin, ctx)?)).await
}
