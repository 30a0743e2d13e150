//! `POST /api/agents/sessions/{id}/fork`: has the agent go back in its conversation, on a branch of its own (S1 5 `Fork`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::Adjustment;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, parsed};
use crate::edge::{Problem, Session};

/// Where to go back to.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fork {
    /// The turn that is left out, with all that follows it. It stays among the records.
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub before_turn_id: TurnId,
}

/// 202: the agent has yet to do it, or to refuse a turn that it does not know. A session that sleeps is woken for it.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Fork>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let fork = [Adjustment::Fork { before_turn_id: body.input.before_turn_id }];
    app.command(&call, id, |it, cx| Ok(it.session.adjust(&fork, cx)?)).await
}
