//! `POST /api/agents/sessions/{id}/answer`: answers a question of the agent (S0 8.7 `AnswerUserQuestionCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_api::input::Violations;
use pilothouse_api::sessions::SessionView;
use pilothouse_app::App;
use pilothouse_app::command::{CommandContext, CommandResponse};
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Problem, Session};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::decision::OwnerDecision;
use pilothouse_domain::text::AnswerText;
use pilothouse_domain::value::Answer as GivenAnswer;
use schemars::JsonSchema;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("requests-answer", Verb::Post, "/api/agents/sessions/{id}/answer", |verb| {
        verb.route(answer_question)
    })
    .owner()
    .summary("Answer a question of the agent")
    .input::<AnswerRequest>()
    .output::<SessionView>(&[200]);

/// The answers to a request of the agent.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerRequest {
    /// The id of the request in the session's `pendingRequests`. The response is 409 `request-over` when it is not open.
    pub request_id: ToolCallId,
    /// One answer for each question of the request.
    pub answers: Vec<OneAnswer>,
}

/// The answer to one question.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneAnswer {
    /// The text of the question, unchanged.
    pub question: String,
    /// The label of an option, several labels separated by commas, or free text.
    pub answer: AnswerText,
}

/// Responds with 200 and the session. The agent continues. An answer that a guardrail of the agent's brief blocks is refused with 409
/// `guardrail-blocked`, and the agent waits for another one.
async fn answer_question(
    State(app): State<App>,
    command: CommandContext,
    Session(id): Session,
    body: Body<AnswerRequest>,
) -> Result<CommandResponse, Problem> {
    let command = command.with_body(&body.hash);
    let AnswerRequest { request_id, answers } = body.input;
    let answers: Vec<_> =
        answers.into_iter().map(|a| GivenAnswer { question: a.question, answer: a.answer.into() }).collect();
    let decision = OwnerDecision::Answer { request: request_id, answers };
    app.decide_request(&command, id, &decision).await
}
