//! `PATCH /api/agents/sessions/{id}`: changes the model or the thinking level of a session (S1 5 `SetModel`,
//! `CycleModel`, `SetThinkingLevel`).

use axum::extract::State;
use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_api::Violation;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::text::ModelId;
use pilothouse_domain::value::{Adjustment, CycleDirection, ThinkingLevel};
use schemars::JsonSchema;
use serde_json::Value;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-adjust", Verb::Patch, "/api/agents/sessions/{id}", |verb| {
        verb.route(adjust_session)
    })
    .owner()
    .summary("Change the model or the thinking level of a session")
    .input::<AdjustSession>()
    .output::<SessionView>(&[200, 202]);

/// The changes to a session. At least one field is required. `modelId` and `cycleModel` exclude each other.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdjustSession {
    /// The model that the agent uses from its next model call on.
    #[deserr(default)]
    pub model_id: Option<ModelId>,
    /// The thinking level of the agent: `off`, `minimal`, `low`, `medium`, `high` or `max`.
    #[deserr(default)]
    pub thinking_level: Option<ThinkingLevel>,
    /// Switches to the next (`forward`) or the previous (`backward`) model that the agent knows.
    #[deserr(default)]
    pub cycle_model: Option<CycleDirection>,
}

impl AdjustSession {
    fn adjustments(&self) -> Vec<Adjustment> {
        let model = self.model_id.as_ref().map(|id| Adjustment::SetModel { model_id: id.to_string() });
        let cycle = self.cycle_model.map(|direction| Adjustment::CycleModel { direction });
        let level = self.thinking_level.map(|level| Adjustment::SetThinkingLevel { level });
        model.into_iter().chain(cycle).chain(level).collect()
    }
}

/// Reads [`AdjustSession`] and reports conflicting fields together with all other violations.
#[derive(Debug, Clone)]
pub struct Adjust(pub AdjustSession);

impl Deserr<Violations> for Adjust {
    fn deserialize_from_value<V: IntoValue>(
        value: deserr::Value<V>,
        place: ValuePointerRef<'_>,
    ) -> Result<Self, Violations> {
        let value: Value = Deserr::<Violations>::deserialize_from_value(value, place)?;
        let says = |field| value.get(field).is_some_and(|said| !said.is_null());
        let wrong =
            |field: &str, message: &str| Violation { field: field.to_owned(), message: message.to_owned() };
        let mut together = Vec::new();
        if value.is_object() && !says("modelId") && !says("thinkingLevel") && !says("cycleModel") {
            together.push(wrong("", "must say at least one of modelId, thinkingLevel, cycleModel"));
        }
        if says("modelId") && says("cycleModel") {
            together.push(wrong("cycleModel", "cannot be combined with modelId"));
        }
        let read = AdjustSession::deserialize_from_value(value.into_value(), place);
        if together.is_empty() {
            return read.map(Self);
        }
        let mut all = read.err().unwrap_or_default();
        all.0.extend(together);
        Err(all)
    }
}

/// Responds with 202 while the agent has not applied the change yet. Responds with 200 when the session has no agent process:
/// its next run starts with the change.
async fn adjust_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Adjust>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let Adjust(input) = body.input;
    if let Some(model) = &input.model_id {
        app.allowed_models.check(model)?;
    }
    if input.cycle_model.is_some() && !app.allowed_models.is_unlimited() {
        return Err(Problem::invalid(
            "cycleModel",
            format!(
                "cannot be used on this server, because the model must be {}; name it with modelId",
                app.allowed_models
            ),
        ));
    }
    let adjustments = input.adjustments();
    app.change_session(&command, id, |it, ctx| Ok(it.session.adjust(&adjustments, ctx)?)).await
}
