//! `POST /api/agents/sessions/{id}/messages/queue/{messageId}/release`: releases a held or uncertain message for delivery
//! (decisions 29, 30).

use axum::extract::State;
use pilothouse_api::messages::QueueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Message;
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "messages-release",
    Verb::Post,
    "/api/agents/sessions/{id}/messages/queue/{messageId}/release",
    |verb| verb.route(release_message),
)
.owner()
.summary("Release a held or uncertain message for delivery")
.output::<QueueView>(&[200]);

/// Responds with 200 and the queue.
async fn release_message(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session_under_brakes(&command, id, |it, _| Ok(it.queue.release(message)?), super::queue).await
}
