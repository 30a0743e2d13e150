//! `POST /api/agent/learnings`: the agent keeps what it learned about people or communication (AG-014, ruling 37).

use axum::extract::State;
use deserr::Deserr;
use http::StatusCode;
use pilothouse_domain::DomainEvent;
use pilothouse_domain::agent_api::{LearningKind, NewAgentLearning};
use pilothouse_domain::text::{InvalidText, LearningContent, LearningSubject, cut};
use schemars::JsonSchema;
use serde_json::Value;

use super::Said;
use crate::api::agent::RecordedLearning;
use crate::app::App;
use crate::change::Answer;
use crate::edge::input::{Body, Said as Sentence, Violations, by_serde, maybe};
use crate::edge::{AgentCaller, Problem};

/// The learning.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordLearning {
    /// What it is about.
    #[deserr(try_from(Value) = by_serde -> Sentence)]
    pub kind: LearningKind,
    /// Whom, or which channel.
    #[deserr(default, try_from(Option<String>) = maybe -> InvalidText)]
    pub subject: Option<LearningSubject>,
    /// What was learned.
    #[deserr(try_from(String) = LearningContent::try_from -> InvalidText)]
    pub content: LearningContent,
}

/// 201 with the id of the learning: it is kept, and told to other contexts.
pub async fn handle(
    state: State<App>,
    caller: AgentCaller,
    body: Body<RecordLearning>,
) -> Result<Answer, Problem> {
    let RecordLearning { kind, subject, content } = body.input;
    let about = subject.as_ref().map(|subject| format!(", {subject}")).unwrap_or_default();
    let said = Said {
        function: "agent-record-learning",
        request_hash: body.hash,
        summary: format!("Learned ({kind:?}{about}): {}", cut(content.as_str(), 120)),
        body: Value::Null,
        view: None,
    };
    let learning = NewAgentLearning { kind, subject, content };
    super::change_and_tell(
        state,
        &caller,
        caller.session,
        said,
        |_, cx| {
            let learning_id = cx.learning_id();
            Ok(vec![DomainEvent::LearningRecorded { learning_id, learning: learning.clone() }])
        },
        |_, events| {
            let recorded = events.iter().find_map(|event| match event {
                DomainEvent::LearningRecorded { learning_id, .. } => Some(*learning_id),
                _ => None,
            });
            let learning_id = recorded.ok_or_else(|| Problem::internal("a learning without its event"))?;
            Answer::new(StatusCode::CREATED, None, &RecordedLearning { learning_id })
        },
    )
    .await
}
