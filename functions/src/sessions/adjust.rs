//! `PATCH /api/agents/sessions/{id}`: the model of a session, and how deeply its agent thinks (S1 5 `SetModel`,
//! `CycleModel`, `SetThinkingLevel`).

use axum::extract::State;
use deserr::{Deserr, IntoValue, ValuePointerRef};
use pilothouse_domain::text::ModelId;
use pilothouse_domain::value::{Adjustment, CycleDirection, ThinkingLevel};
use schemars::JsonSchema;
use serde_json::Value;

use crate::api::Violation;
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Said, Violations, maybe, maybe_by_serde};
use crate::edge::{Problem, Session};

/// What changes; at least one of them, and a model only in one way.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AdjustSession {
    /// The model that it works with from its next call on.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub model_id: Option<ModelId>,
    /// How deeply it thinks: `off`, `minimal`, `low`, `medium`, `high` or `max`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
    pub thinking_level: Option<ThinkingLevel>,
    /// The next or the previous model of those that it knows: `forward` or `backward`.
    #[deserr(default, try_from(Option<Value>) = maybe_by_serde -> Said)]
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

/// What does not go together is named with everything else that is wrong.
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
            together.push(wrong("cycleModel", "cannot stand beside modelId"));
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

/// 202 while the agent has yet to take it; 200 where there is none: its next run begins with it.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Adjust>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let adjustments = body.input.0.adjustments();
    app.command(&call, id, |it, cx| Ok(it.session.adjust(&adjustments, cx)?)).await
}
