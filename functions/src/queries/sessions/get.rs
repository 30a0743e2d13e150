//! `GET /api/agents/sessions/{id}`: returns a session (S0 8.7 `GetAgentSessionQuery`).

use axum::extract::State;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-get", Verb::Get, "/api/agents/sessions/{id}", |verb| verb.route(get_session))
        .owner()
        .summary("Get a session")
        .output::<SessionView>(&[200]);

/// Responds with 200 and the session. Commands accept its `ETag` in `If-Match`.
async fn get_session(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    CommandResponse::ok(session.control_version(), &app.view_of(&owner, &session).await?)
}
