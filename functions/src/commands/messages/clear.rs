//! `DELETE /api/agents/sessions/{id}/messages/queue`: cancels all pending messages.

use axum::extract::State;
use http::StatusCode;
use pilothouse_api::messages::ClearedQueue;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{NoBody, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("messages-clear", Verb::Delete, "/api/agents/sessions/{id}/messages/queue", |verb| {
        verb.route(clear_messages)
    })
    .owner()
    .summary("Cancel all pending messages")
    .output::<ClearedQueue>(&[200]);

/// Responds with 200 and the ids of the cancelled messages.
async fn clear_messages(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    _: NoBody,
) -> Result<CommandResponse, Problem> {
    app.change_session_with(
        &command,
        id,
        |it, _| Ok(it.clear_queue()),
        |it| {
            let cancelled = it.closed_messages.iter().map(|m| m.message_id).collect();
            CommandResponse::new(
                StatusCode::OK,
                Some(it.session.control_version()),
                &ClearedQueue { cancelled },
            )
        },
    )
    .await
}
