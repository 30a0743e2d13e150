//! `POST /api/agents/sessions/{id}/compact`: has the agent summarise its conversation now (S1 5 `Compact`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::text::Feedback;
use pilothouse_domain::value::Adjustment;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::{Problem, Session};

/// How to summarise.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Compact {
    /// What the summary is to look out for.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub instructions: Option<Feedback>,
}

/// 202: the agent has yet to do it. A session that sleeps is woken for it.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Compact>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let instructions = body.input.instructions.as_ref().map(|text| text.as_str().to_owned());
    let compact = [Adjustment::Compact { instructions }];
    app.command(&call, id, |it, cx| Ok(it.session.adjust(&compact, cx)?)).await
}
