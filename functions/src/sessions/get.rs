//! `GET /api/agents/sessions/{id}`: a session in full (S0 8.7 `GetAgentSessionQuery`).

use axum::extract::State;

use crate::api::sessions::SessionView;
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// 200 with the session; its `ETag` is for `If-Match` on commands.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let session = app.session_of(&owner, id).await?;
    Answer::ok(session.control_version(), &SessionView::of(&session))
}
