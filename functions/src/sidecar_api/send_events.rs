//! `POST /internal/gateway/events`: sends events of a run to the events queue.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_broker::{MAX_BATCH, OutgoingMessage};
use pilothouse_wire::gateway::{SendEvents, SendResult};

use super::{Caller, unavailable};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-send-events", Verb::Post, "/internal/gateway/events", |verb| {
        verb.route(send_events)
    })
    .sidecar()
    .summary("Send events of a run")
    .requires(EMBEDDED);

/// Responds with 200 and the positions of the accepted entries. The message group is always the token's session. The intake
/// verifies the signatures of the events.
async fn send_events(
    State(app): State<App>,
    caller: Caller,
    Json(events): Json<SendEvents>,
) -> Result<Response, Problem> {
    if events.entries.len() > MAX_BATCH {
        return Err(Problem::invalid("entries", format!("must have at most {MAX_BATCH} items")));
    }
    let count = events.entries.len();
    let group = caller.session.to_string();
    let messages = events
        .entries
        .into_iter()
        .map(|entry| OutgoingMessage::new(group.clone(), entry.deduplication_id, entry.body));
    match app.broker.send(&queues::events(), messages.collect()).await {
        Ok(outcome) => {
            let failed: Vec<usize> = outcome.failed.iter().map(|(at, _)| *at).collect();
            let accepted = (0..count).filter(|at| !failed.contains(at)).collect();
            Ok(Json(SendResult { accepted }).into_response())
        }
        Err(error) => Ok(unavailable(&error)),
    }
}
