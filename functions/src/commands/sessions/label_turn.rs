//! `POST /api/agents/sessions/{id}/label`: labels the state of the conversation after a turn, so that it can be found again (S1 9).

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
use pilothouse_domain::text::LabelText;
use pilothouse_domain::value::Adjustment;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-label-turn", Verb::Post, "/api/agents/sessions/{id}/label", |verb| {
        verb.route(label_turn)
    })
    .owner()
    .summary("Label a turn of the conversation")
    .input::<LabelTurn>()
    .output::<SessionView>(&[202]);

/// A label, or its removal.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelTurn {
    /// The turn, of the present conversation. Default: its latest turn.
    #[deserr(default)]
    pub turn_id: Option<TurnId>,
    /// The label. Without it, the label of the turn is removed.
    #[deserr(default)]
    pub label: Option<LabelText>,
}

/// Responds with 202. The agent labels the turn later, or refuses an unknown turn. A hibernated session is woken first.
async fn label_turn(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<LabelTurn>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let LabelTurn { turn_id, label } = body.input;
    let label = [Adjustment::LabelTurn { turn_id, label: label.map(Into::into) }];
    app.change_session(&command, id, |it, ctx| Ok(it.session.adjust(&label, ctx)?)).await
}
