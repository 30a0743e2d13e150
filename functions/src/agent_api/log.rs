//! `POST /api/agent/sessions/{id}/log`: logs a decision (S0 8.7 `AgentLogDecisionCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem, Session};
use pilothouse_domain::SessionEvent;
use pilothouse_domain::text::DecisionText;
use pilothouse_store::JournalView;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::AgentActivity;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-log", Verb::Post, "/api/agent/sessions/{id}/log", |verb| {
        verb.route(log_decision)
    })
    .agent()
    .summary("Log a decision")
    .input::<LogDecision>()
    .statuses(&[201]);

/// A decision of the agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogDecision {
    /// The decision and its reasons.
    pub content: DecisionText,
}

/// Responds with 201. The session's log holds the decision under `decision`. The session's status does not change.
async fn log_decision(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<LogDecision>,
) -> Result<CommandResponse, Problem> {
    let content = body.input.content.to_string();
    let activity = AgentActivity {
        function: "agent-log",
        request_hash: body.hash,
        summary: "A decision was logged".to_owned(),
        body: Value::Null,
        view: Some(JournalView::Log),
    };
    super::change(
        state,
        &caller,
        id,
        activity,
        |_, _| Ok(vec![SessionEvent::DecisionLogged { content: content.clone() }]),
        |it| {
            CommandResponse::new(
                StatusCode::CREATED,
                None,
                &json!({ "sequenceNumber": it.session.journal_sequence() + 1 }),
            )
        },
    )
    .await
}
