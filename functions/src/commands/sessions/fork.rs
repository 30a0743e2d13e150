//! `POST /api/agents/sessions/{id}/fork`: continues the conversation on a branch that starts before a turn (S1 5 `Fork`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::TurnId;
use pilothouse_domain::value::Adjustment;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-fork", Verb::Post, "/api/agents/sessions/{id}/fork", |verb| {
        verb.route(fork_session)
    })
    .owner()
    .summary("Fork the conversation before a turn")
    .input::<Fork>()
    .output::<SessionView>(&[202]);

/// The point at which the conversation forks.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fork {
    /// The first turn that the new branch omits. This turn and all later turns stay in the session's records.
    pub before_turn_id: TurnId,
}

/// Responds with 202. The agent forks later, or refuses an unknown turn. A hibernated session is woken first.
async fn fork_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Fork>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let fork = [Adjustment::Fork { before_turn_id: body.input.before_turn_id }];
    app.change_session(&command, id, |it, ctx| Ok(it.session.adjust(&fork, ctx)?)).await
}
