//! `POST /internal/gateway/events`: puts events of a run on the events queue.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pilothouse_broker::{MAX_BATCH, Outgoing};
use pilothouse_wire::gateway::{SendEvents, SendResult};

use super::{Caller, unavailable};
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// 200 with what the broker has. The group is the token's session, whatever the events say; the intake checks their
/// signatures.
pub async fn handle(
    State(app): State<App>,
    caller: Caller,
    Json(events): Json<SendEvents>,
) -> Result<Response, Problem> {
    if events.entries.len() > MAX_BATCH {
        return Err(Problem::invalid("entries", format!("must have at most {MAX_BATCH}")));
    }
    let count = events.entries.len();
    let group = caller.session.to_string();
    let messages = events
        .entries
        .into_iter()
        .map(|entry| Outgoing::new(group.clone(), entry.deduplication_id, entry.body));
    match app.broker.send(&queues::events(), messages.collect()).await {
        Ok(outcome) => {
            let failed: Vec<usize> = outcome.failed.iter().map(|(at, _)| *at).collect();
            let accepted = (0..count).filter(|at| !failed.contains(at)).collect();
            Ok(Json(SendResult { accepted }).into_response())
        }
        Err(error) => Ok(unavailable(&error)),
    }
}
