//! `POST /internal/gateway/commands/receive`: waits for commands to a run.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pilothouse_broker::{MAX_BATCH, MAX_WAIT, QueueError};
use pilothouse_wire::gateway::{ReceiveCommands, ReceivedCommand, ReceivedCommands};

use super::{Caller, gone, unavailable};
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// 200 with what there is; 410 when the run is over and its queue removed.
pub async fn handle(
    State(app): State<App>,
    caller: Caller,
    Json(ask): Json<ReceiveCommands>,
) -> Result<Response, Problem> {
    let wait = Duration::try_from_secs_f64(ask.wait_seconds).unwrap_or_default().min(MAX_WAIT);
    match app.broker.receive(&queues::commands(caller.run), ask.max.clamp(1, MAX_BATCH), wait).await {
        Ok(received) => {
            let messages =
                received.into_iter().map(|m| ReceivedCommand { receipt: m.receipt.0, body: m.body });
            Ok(Json(ReceivedCommands { messages: messages.collect() }).into_response())
        }
        Err(QueueError::NoSuchQueue(_)) => Ok(gone()),
        Err(error) => Ok(unavailable(&error)),
    }
}
