//! `DELETE /api/agents/sessions/{id}/messages/queue/{messageId}`: takes a pending message back (S0 8.4 `Cancel`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::request::Message;
use crate::edge::{NoBody, Problem, Session};

/// 200 with the queue; 409 `already-sent` when the agent may have it.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.change(&call, id, |it, _| Ok(it.cancel_message(message)?), super::queue).await
}
