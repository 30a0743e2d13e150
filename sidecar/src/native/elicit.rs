//! What MCP servers want of the owner while one of their tools runs: the fields of a form are asked as questions, as the
//! tool that asks does it (ruling 26). An answer that does not fit its field declines, and so does one without words; an
//! interrupt, or the end of the call, cancels.

use async_trait::async_trait;
use pilothouse_agent::mcp::{Elicit, ElicitAnswer, ElicitKind, ElicitRequest};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Question;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use super::tell;
use crate::acp::Form;
use crate::adapter::EventSink;
use crate::own_tools::Requests;

/// Asks the owner for a server.
pub(super) struct AskOwner {
    requests: Requests,
    events: EventSink,
}

impl AskOwner {
    /// Waits in `requests`, and asks by `events`.
    pub(super) const fn new(requests: Requests, events: EventSink) -> Self {
        Self { requests, events }
    }

    async fn ask(&self, server: &str, message: &str, schema: &Value) -> Option<ElicitAnswer> {
        let form = json!({ "message": message, "requestedSchema": schema });
        let Some(form) = Form::read(&form, None) else {
            // Nothing is to be filled in: it is a question whether to go on.
            return self.confirm(server, message).await;
        };
        let mut questions = form.questions();
        let several = questions.len() > 1;
        for question in &mut questions {
            // Whoever is asked has to know who asks.
            let about = match &question.header {
                _ if several && !message.is_empty() => message,
                Some(title) => title,
                None => message,
            };
            question.header = Some(format!("{server}: {about}"));
        }
        let answers = self.answers(questions).await?;
        let response = form.answered(&answers);
        Some(match response.get("action").and_then(Value::as_str) {
            Some("accept") => ElicitAnswer::Accept(response.get("content").cloned()),
            _ => ElicitAnswer::Decline,
        })
    }

    async fn confirm(&self, server: &str, message: &str) -> Option<ElicitAnswer> {
        let option = |label: &str| serde_json::from_value(json!({ "label": label })).ok();
        let question = Question {
            question: if message.is_empty() { "May it go on?".to_owned() } else { message.to_owned() },
            header: Some(server.to_owned()),
            options: ["Yes", "No"].into_iter().filter_map(option).collect(),
            multi_select: false,
        };
        let answers = self.answers(vec![question]).await?;
        let yes = answers.first().is_some_and(|answer| answer.answer.trim().eq_ignore_ascii_case("yes"));
        Some(if yes { ElicitAnswer::Accept(Some(json!({}))) } else { ElicitAnswer::Decline })
    }

    /// Asks and waits. None: the turn was interrupted, or it cannot be asked.
    async fn answers(&self, questions: Vec<Question>) -> Option<Vec<pilothouse_domain::value::Answer>> {
        let id = ToolCallId::parse(format!("elicitation-{}", Uuid::now_v7())).ok()?;
        let mut open = OpenQuestion { id: id.clone(), events: self.events.clone(), is_open: true };
        let asked = RawEvent::QuestionAsked { request_id: id.clone(), questions };
        self.events.emit(asked).await.ok()?;
        let answers = self.requests.ask(id).await.ok()?;
        open.is_open = false;
        Some(answers)
    }
}

#[async_trait]
impl Elicit for AskOwner {
    async fn elicit(&self, request: ElicitRequest) -> ElicitAnswer {
        let ElicitRequest { server, message, kind } = request;
        match kind {
            ElicitKind::Form(schema) => {
                self.ask(&server, &message, &schema).await.unwrap_or(ElicitAnswer::Cancel)
            }
            ElicitKind::Url(url) => {
                let summary = format!(
                    "the MCP server {server} wants you to open a page, which is declined: whether you were there cannot \
                     be known here"
                );
                let detail = json!({ "message": message, "url": url });
                // A spool that takes nothing any more is told of by others.
                let _ = self.events.emit(tell::notice("elicitation_declined", summary, detail)).await;
                ElicitAnswer::Decline
            }
        }
    }
}

/// A question that the owner was asked. One that is dropped without an answer is told to be over, so that nobody answers it
/// in vain.
struct OpenQuestion {
    id: ToolCallId,
    events: EventSink,
    is_open: bool,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let over = RawEvent::ToolResult {
            tool_call_id: self.id.clone(),
            content: "Nobody waits for the answer any more.".to_owned().into(),
            is_error: true,
            subagent_id: None,
        };
        let events = self.events.clone();
        // Outside a runtime everything ends.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { events.emit(over).await });
        }
    }
}
