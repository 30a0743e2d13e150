//! `POST /api/agent/learnings`: records a learning about people or communication (AG-014, decision 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_api::agent::RecordedLearning;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{AgentCaller, Problem};
use pilothouse_domain::SessionEvent;
use pilothouse_domain::agent_api::{LearningKind, NewAgentLearning};
use pilothouse_domain::text::{LearningContent, LearningSubject, cut};
use schemars::JsonSchema;
use serde_json::Value;

use super::AgentActivity;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("agent-record-learning", Verb::Post, "/api/agent/learnings", |verb| {
        verb.route(record_learning)
    })
    .agent()
    .summary("Record a learning about people or communication")
    .input::<RecordLearning>()
    .output::<RecordedLearning>(&[201]);

/// A learning about people or communication.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordLearning {
    /// The kind of learning.
    pub kind: LearningKind,
    /// The person or channel that the learning concerns.
    #[deserr(default)]
    pub subject: Option<LearningSubject>,
    /// The learning itself.
    pub content: LearningContent,
}

/// Responds with 201 and the id of the learning. The learning is stored and announced to other contexts.
async fn record_learning(
    state: State<App>,
    caller: AgentCaller,
    body: Body<RecordLearning>,
) -> Result<CommandResponse, Problem> {
    let RecordLearning { kind, subject, content } = body.input;
    let about = subject.as_ref().map(|subject| format!(", {subject}")).unwrap_or_default();
    let activity = AgentActivity {
        function: "agent-record-learning",
        request_hash: body.hash,
        summary: format!("Learned ({kind}{about}): {}", cut(content.as_str(), 120)),
        body: Value::Null,
        view: None,
    };
    let learning = NewAgentLearning { kind, subject, content };
    super::change_with_events(
        state,
        &caller,
        caller.session,
        activity,
        |_, ctx| {
            let learning_id = ctx.learning_id();
            Ok(vec![SessionEvent::LearningRecorded { learning_id, learning: learning.clone() }])
        },
        |_, events| {
            let recorded = events.iter().find_map(|event| match event {
                SessionEvent::LearningRecorded { learning_id, .. } => Some(*learning_id),
                _ => None,
            });
            let learning_id = recorded.ok_or_else(|| Problem::internal("the learning has no event"))?;
            CommandResponse::new(StatusCode::CREATED, None, &RecordedLearning { learning_id })
        },
    )
    .await
}
