//! `POST /internal/gateway/drafts`: sends a part of a text that the agent is writing.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use pilothouse_api::stream::DraftView;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_domain::AgentSession;
use pilothouse_wire::gateway::{DraftResult, SendDraft};

use super::{Caller, gone};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("gateway-send-draft", Verb::Post, "/internal/gateway/drafts", |verb| {
        verb.route(send_draft)
    })
    .sidecar()
    .summary("Send a part of a text that the agent is writing")
    .requires(EMBEDDED);

/// Responds with 200 and the followers of the session. The part goes to those who follow it now, and is not stored. An empty part only
/// asks for the followers. A part is not shown before the events that precede its text: their entries would end it.
async fn send_draft(
    State(app): State<App>,
    caller: Caller,
    Json(SendDraft { kind, part, text, after }): Json<SendDraft>,
) -> Result<Response, Problem> {
    if text.len() > SendDraft::MAX_BYTES {
        return Err(Problem::invalid("text", format!("must have at most {} bytes", SendDraft::MAX_BYTES)));
    }
    let followers = app.drafts().followers(caller.session);
    let mut is_early = false;
    if followers.is_some() {
        let session = app.store.session(caller.session).await?;
        let run = session.as_ref().and_then(AgentSession::run);
        let Some(run) = run.filter(|run| run.id == caller.run) else { return Ok(gone()) };
        if !text.is_empty() {
            is_early = run.inbox.next() <= after;
            if !is_early {
                app.drafts().publish(caller.session, DraftView { kind, part, text });
            }
        }
    }
    Ok(Json(DraftResult { followers, is_early }).into_response())
}
