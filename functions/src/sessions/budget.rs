//! `PATCH /api/agents/sessions/{id}/budget`: changes the cap (ruling 32).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::Usd;
use schemars::JsonSchema;

use super::start::percent;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Said, Violations, parsed};
use crate::edge::{Problem, Session};

/// The new cap.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeBudget {
    /// The most dollars that it may spend; more than it has spent.
    #[deserr(try_from(String) = parsed -> pilothouse_domain::money::InvalidUsd)]
    pub cap_usd: Usd,
    /// At which percentage its owner is warned. Default: as before.
    #[deserr(default, try_from(Option<u64>) = percent -> Said)]
    #[schemars(range(min = 1, max = 99))]
    pub warn_at_percent: Option<u8>,
}

/// 200. A session that was paused at its cap can be resumed now.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<ChangeBudget>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let ChangeBudget { cap_usd, warn_at_percent } = body.input;
    app.command(&call, id, |it, _| Ok(it.session.change_budget(cap_usd, warn_at_percent)?)).await
}
