//! `DELETE /api/agents/sessions/{id}/messages/queue`: takes back everything that was not sent.

use axum::extract::State;
use http::StatusCode;

use crate::api::messages::ClearedQueue;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::{NoBody, Problem, Session};

/// 200 with the ids of what was cancelled.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.change(
        &call,
        id,
        |it, _| Ok(it.clear_queue()),
        |it| {
            let cancelled = it.closed_messages.iter().map(|m| m.message_id).collect();
            Answer::new(StatusCode::OK, Some(it.session.control_version()), &ClearedQueue { cancelled })
        },
    )
    .await
}
