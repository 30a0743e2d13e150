//! `POST /internal/gateway/commands/delete`: removes commands that the sidecar has in its spool.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use pilothouse_broker::{QueueError, Receipt};
use pilothouse_wire::gateway::DeleteCommands;

use super::{Caller, gone, unavailable};
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// 204, also when they were removed before.
pub async fn handle(
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
