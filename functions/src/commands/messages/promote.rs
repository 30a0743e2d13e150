//! `PATCH /api/agents/sessions/{id}/messages/queue/{messageId}/promote`: makes a queued message immediate (S0 8.4 `Promote`).

use axum::extract::State;
use pilothouse_api::messages::QueueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Message;
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "messages-promote",
    Verb::Patch,
    "/api/agents/sessions/{id}/messages/queue/{messageId}/promote",
    |verb| verb.route(promote_message),
)
.owner()
.summary("Make a queued message immediate")
.output::<QueueView>(&[200]);

/// Responds with 200 and the queue. The message becomes the last of the immediate messages.
async fn promote_message(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session_under_brakes(&command, id, |it, _| Ok(it.queue.promote(message)?), super::queue).await
}
