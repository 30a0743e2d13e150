//! `POST /api/agent/sessions/{id}/log`: the agent logs a decision (S0 8.7 `AgentLogDecisionCommand`).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::DomainEvent;
use pilothouse_domain::text::DecisionText;
use pilothouse_store::View;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::Said;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Violations};
use crate::edge::{AgentCaller, Problem, Session};

/// The decision.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogDecision {
    /// What was decided, and why.
    #[deserr(try_from(String) = DecisionText::try_from -> pilothouse_domain::text::InvalidText)]
    pub content: DecisionText,
}

/// 201: it stands in the log, under `decision`. The session's status does not change.
pub async fn handle(
    state: State<App>,
    caller: AgentCaller,
    Session(id): Session,
    body: Body<LogDecision>,
) -> Result<Answer, Problem> {
    let content = body.input.content.to_string();
    let said = Said {
        function: "agent-log",
        request_hash: body.hash,
        summary: "A decision was logged".to_owned(),
        body: Value::Null,
        view: Some(View::Log),
    };
    super::change(
        state,
        &caller,
        id,
        said,
        |_, _| Ok(vec![DomainEvent::DecisionLogged { content: content.clone() }]),
        |it| {
            Answer::new(
                StatusCode::CREATED,
                None,
                &json!({ "sequenceNumber": it.session.journal_sequence() + 1 }),
            )
        },
    )
    .await
}
