//! `POST /api/agents/sessions/{id}/interrupt`: ends the turn of a Running session (S0 8.4 `RequestInterrupt`).

use axum::extract::State;
use deserr::Deserr;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations};
use crate::edge::{Problem, Session};

/// How to interrupt.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Interrupt {
    /// Whether pending messages are cancelled; otherwise they are held until the owner acts (ruling 29).
    #[deserr(default)]
    pub clear_queue: bool,
}

/// 202: the sidecar has yet to confirm.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Interrupt>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash).as_stop();
    app.command(&call, id, |it, cx| {
        let mut events = it.session.request_interrupt(cx)?;
        if body.input.clear_queue {
            events.extend(it.clear_queue());
        }
        Ok(events)
    })
    .await
}
