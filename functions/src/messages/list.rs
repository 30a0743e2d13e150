//! `GET /api/agents/sessions/{id}/messages/queue`: what waits, in delivery order (S0 8.7
//! `GetSessionMessageQueueQuery`).

use axum::extract::State;

use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// 200 with the open messages: immediate ones first.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let loaded = app.store.conversation(id).await?.ok_or_else(Problem::no_session)?;
    if *loaded.conversation.session.owner_id() != owner {
        return Err(Problem::no_session());
    }
    super::queue(&loaded.conversation)
}
