//! `POST /internal/gateway/commands/receive`: receives commands for a run by long polling.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::waiting_time;
use pilothouse_app::queues;
use pilothouse_broker::{MAX_BATCH, MAX_WAIT, QueueError};
use pilothouse_wire::gateway::{ReceiveCommands, ReceivedCommand, ReceivedCommands};

use super::{Caller, gone, unavailable};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-receive-commands", Verb::Post, "/internal/gateway/commands/receive", |verb| {
        verb.route(receive_commands)
    })
    .sidecar()
    .summary("Receive commands for a run")
    .requires(EMBEDDED);

/// Responds with 200 and the available commands, or with 410 when the run is over and its queue is gone.
async fn receive_commands(
    State(app): State<App>,
    caller: Caller,
    Json(ask): Json<ReceiveCommands>,
) -> Result<Response, Problem> {
    let wait = waiting_time("waitSeconds", ask.wait_seconds, MAX_WAIT)?;
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
