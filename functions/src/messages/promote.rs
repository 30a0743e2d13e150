//! `PATCH /api/agents/sessions/{id}/messages/queue/{messageId}/promote`: makes a queued message immediate (S0 8.4 `Promote`).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::request::Message;
use crate::edge::{NoBody, Problem, Session};

/// 200 with the queue: the message is last among the immediate ones.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.change(&call, id, |it, _| Ok(it.queue.promote(message)?), super::queue).await
}
