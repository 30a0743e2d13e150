//! `POST /internal/gateway/commands/delete`: deletes commands that the sidecar has written to its spool.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_broker::{QueueError, Receipt};
use pilothouse_wire::gateway::DeleteCommands;

use super::{Caller, gone, unavailable};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-delete-commands", Verb::Post, "/internal/gateway/commands/delete", |verb| {
        verb.route(delete_commands)
    })
    .sidecar()
    .summary("Delete commands that the sidecar has stored")
    .statuses(&[204])
    .requires(EMBEDDED);

/// Responds with 204, also when the commands were deleted before.
async fn delete_commands(
    State(app): State<App>,
    caller: Caller,
    Json(ask): Json<DeleteCommands>,
) -> Result<Response, Problem> {
    let receipts: Vec<_> = ask.receipts.into_iter().map(Receipt).collect();
    match app.broker.delete(&queues::commands(caller.run), &receipts).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT.into_response()),
        Err(QueueError::NoSuchQueue(_)) => Ok(gone()),
        Err(error) => Ok(unavailable(&error)),
    }
}
