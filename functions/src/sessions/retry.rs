//! `POST /api/agents/sessions/{id}/retry`: tries a Failed session again (S0 8.4 `Retry`, ruling 24).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

use crate::api::sessions::{SessionView, StartedSession};
use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, maybe};
use crate::edge::{Problem, Session};

/// How to retry.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// What the agent is told first.
    #[deserr(default, try_from(Option<String>) = maybe -> pilothouse_domain::text::InvalidText)]
    pub additional_instruction: Option<Feedback>,
    /// Whether it begins a new conversation instead of taking up the old one.
    #[deserr(default)]
    pub fresh: bool,
}

/// 202: Queued; it starts when a slot is free. The session's API key is a new one, shown this once.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<Retry>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let Retry { additional_instruction, fresh } = body.input;
    let mut answer = app
        .change(
            &call,
            id,
            |it, cx| Ok(it.session.retry(additional_instruction.clone(), fresh, cx)?),
            |it| {
                let started = StartedSession {
                    session: SessionView::of(&it.session),
                    api_key: String::new(),
                    pool: None,
                };
                Answer::new(StatusCode::ACCEPTED, Some(it.session.control_version()), &started)
            },
        )
        .await?;
    let retries = answer.body.pointer("/session/retryCount").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if let Some(object) = answer.body.as_object_mut() {
        let key = app.secret.api_key(id, u32::try_from(retries).unwrap_or(u32::MAX));
        object.insert("apiKey".to_owned(), key.into());
    }
    Ok(answer)
}
