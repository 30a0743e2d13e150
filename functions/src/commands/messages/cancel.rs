//! `DELETE /api/agents/sessions/{id}/messages/queue/{messageId}`: cancels a pending message (S0 8.4 `Cancel`).

use axum::extract::State;
use pilothouse_api::messages::QueueView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Message;
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "messages-cancel",
    Verb::Delete,
    "/api/agents/sessions/{id}/messages/queue/{messageId}",
    |verb| verb.route(cancel_message),
)
.owner()
.summary("Cancel a pending message")
.output::<QueueView>(&[200]);

/// Responds with 200 and the queue, or with 409 `already-sent` when the message may have reached the agent.
async fn cancel_message(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session_with(&command, id, |it, _| Ok(it.cancel_message(message)?), super::queue).await
}
