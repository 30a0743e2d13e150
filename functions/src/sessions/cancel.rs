//! `POST /api/agents/sessions/{id}/cancel`: ends a session (S0 8.4 `RequestCancel`, ruling 16).

use axum::extract::State;
use deserr::Deserr;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations};
use crate::edge::{Problem, Session};

/// How to cancel.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cancel {
    /// Whether the runtime ends the process at once, without waiting for the agent.
    #[deserr(default)]
    pub force: bool,
}

/// 202: the sidecar has yet to confirm, or an earlier request has yet to resolve. 200: Cancelled.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Cancel>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash).as_stop();
    app.command(&call, id, |it, cx| Ok(it.session.request_cancel(body.input.force, cx)?)).await
}
