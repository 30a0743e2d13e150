//! `POST /api/agents/sessions/{id}/answer`: answers a question of the agent (S0 8.7 `AnswerUserQuestionCommand`).

use axum::extract::State;
use deserr::Deserr;
use pilothouse_domain::ToolCallId;
use pilothouse_domain::text::AnswerText;
use pilothouse_domain::value::Answer as GivenAnswer;
use schemars::JsonSchema;

use crate::app::App;
use crate::change::{Answer, Call};
use crate::edge::input::{Body, Violations, parsed};
use crate::edge::{Problem, Session};

/// The answers to one request.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerRequest {
    /// The request, from the session's `pendingRequests`; 409 `request-over` when it is not open.
    #[deserr(try_from(String) = parsed -> pilothouse_domain::InvalidId)]
    pub request_id: ToolCallId,
    /// One answer for each of its questions.
    pub answers: Vec<OneAnswer>,
}

/// The answer to one question.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct OneAnswer {
    /// The question as it was asked.
    pub question: String,
    /// A label of its options, several joined with a comma, or free text.
    #[deserr(try_from(String) = AnswerText::try_from -> pilothouse_domain::text::InvalidText)]
    pub answer: AnswerText,
}

/// 200: the agent goes on.
pub async fn handle(
    State(app): State<App>,
    call: Call,
    Session(id): Session,
    body: Body<AnswerRequest>,
) -> Result<Answer, Problem> {
    let call = call.with_body(&body.hash);
    let AnswerRequest { request_id, answers } = body.input;
    let answers: Vec<_> =
        answers.into_iter().map(|a| GivenAnswer { question: a.question, answer: a.answer.into() }).collect();
    app.command(&call, id, |it, cx| Ok(it.answer(&request_id, answers.clone(), cx)?)).await
}
