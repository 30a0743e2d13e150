//! `POST /api/agents/sessions/{id}/messages/queue/{messageId}/release`: lets a held or uncertain message go out (rulings 29, 30).

use axum::extract::State;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::request::Message;
use crate::edge::{NoBody, Problem, Session};

/// 200 with the queue.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    Message(message): Message,
    _: NoBody,
) -> Result<Answer, Problem> {
    app.change(&call, id, |it, _| Ok(it.queue.release(message)?), super::queue).await
}
