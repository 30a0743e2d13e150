//! `PATCH /api/agents/sessions/{id}/budget`: changes the budget of a session (decision 32).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::{FieldError, Violations};
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::Usd;
use pilothouse_domain::session::BudgetChange;
use schemars::JsonSchema;

use crate::fields::percent;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-budget", Verb::Patch, "/api/agents/sessions/{id}/budget", |verb| {
        verb.route(change_budget)
    })
    .owner()
    .summary("Change the budget of a session")
    .input::<ChangeBudget>()
    .output::<SessionView>(&[200, 202]);

/// The changes to a budget. At least one field is required.
#[derive(Debug, Clone, Copy, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeBudget {
    /// The budget cap in US dollars. It must exceed what the session has spent. Default: unchanged.
    #[deserr(default)]
    pub cap_usd: Option<Usd>,
    /// The percentage of the cap at which the owner is warned. Default: unchanged.
    #[deserr(default, try_from(Option<u64>) = percent -> FieldError)]
    #[schemars(range(min = 1, max = 99))]
    pub warn_at_percent: Option<u8>,
    /// Whether the session may run although the cost of its agent is unknown, so that the cap cannot be enforced. Default:
    /// unchanged.
    #[deserr(default)]
    pub allow_unmetered: Option<bool>,
}

/// Responds with 200 and the session. A session that was paused at its cap can then be resumed.
async fn change_budget(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<ChangeBudget>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let ChangeBudget { cap_usd, warn_at_percent, allow_unmetered } = body.input;
    if cap_usd.is_none() && warn_at_percent.is_none() && allow_unmetered.is_none() {
        return Err(Problem::invalid("capUsd", "is missing: say what is to change"));
    }
    let change = BudgetChange { cap_usd, warn_at_percent, allow_unmetered };
    app.change_session(&command, id, |it, _| Ok(it.session.change_budget(change)?)).await
}
