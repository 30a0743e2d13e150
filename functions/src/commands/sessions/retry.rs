//! `POST /api/agents/sessions/{id}/retry`: retries a Failed session (S0 8.4 `Retry`, decision 24).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::{SessionView, StartedSession};
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::requirements::COMMAND_WITH_KEY;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_app::session_start::StartRoom;
use pilothouse_domain::DomainContext;
use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::escalation::InputGuardrail;
use pilothouse_domain::text::Feedback;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-retry", Verb::Post, "/api/agents/sessions/{id}/retry", |verb| {
        verb.route(retry_session)
    })
    .owner()
    .summary("Retry a failed session")
    .input::<Retry>()
    .output::<StartedSession>(&[202])
    .requires(COMMAND_WITH_KEY);

/// Options of a retry.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Retry {
    /// An instruction that the agent receives at the start of the new run.
    #[deserr(default)]
    pub additional_instruction: Option<Feedback>,
    /// Whether the agent starts a new conversation. Default: it continues the old one.
    #[deserr(default)]
    pub fresh: bool,
}

/// Responds with 202. The session is Queued and starts when a slot is free. The response contains the session's new API key,
/// which is not shown again. With 409 `guardrail-blocked`, a guardrail of the agent's brief blocks the instruction, or the objective that a
/// new conversation begins with.
async fn retry_session(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<Retry>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let Retry { additional_instruction, fresh } = body.input;
    let room = StartRoom::default();
    let retry = |it: &mut Conversation, guardrails: &[InputGuardrail], ctx: &mut DomainContext<'_>| {
        let events = it.retry_guarded(additional_instruction.clone(), fresh, guardrails, ctx)?;
        // A refused retry reserves no room.
        room.reserve(&app)?;
        Ok(events)
    };
    let mut response = app.change_session_guarded(&command, id, retry, accepted).await?;
    let count = response.body.pointer("/session/retryCount").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if let Some(object) = response.body.as_object_mut() {
        let key = app.secret.api_key(id, u32::try_from(count).unwrap_or(u32::MAX));
        object.insert("apiKey".to_owned(), key.into());
    }
    Ok(response)
}

/// The response, without the API key, which is added last and never stored with the response.
fn accepted(it: &Conversation) -> Result<CommandResponse, Problem> {
    let started =
        StartedSession { session: SessionView::of(&it.session), api_key: String::new(), pool: None };
    CommandResponse::new(StatusCode::ACCEPTED, Some(it.session.control_version()), &started)
}
