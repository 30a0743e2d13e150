//! Forwards elicitations of MCP servers to the owner while one of their tools runs: the fields of a form become
//! questions, like those of the asking tool (decision 26). An answer that is empty or does not fit its field declines.
//! An interrupt or the end of the call cancels.

use async_trait::async_trait;
use pilothouse_agent::mcp::{Elicit, ElicitKind, ElicitRequest, ElicitResponse};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Question;
use pilothouse_wire::RawEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::adapter::EventSink;
use crate::kit::form::Form;
use crate::kit::notices::detailed_notice;
use crate::own_tools::Requests;
use crate::own_tools::open_question::OpenQuestion;

pub(super) struct AskOwner {
    requests: Requests,
    events: EventSink,
}

impl AskOwner {
    pub(super) const fn new(requests: Requests, events: EventSink) -> Self {
        Self { requests, events }
    }

    async fn ask(&self, server: &str, message: &str, schema: &Value) -> Option<ElicitResponse> {
        let form = json!({ "message": message, "requestedSchema": schema });
        let Some(form) = Form::read(&form, None) else {
            // Without fields, the owner only confirms.
            return self.confirm(server, message).await;
        };
        let mut questions = form.questions();
        let several = questions.len() > 1;
        for question in &mut questions {
            // Shows the owner which server asks.
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
            Some("accept") => ElicitResponse::Accept(response.get("content").cloned()),
            _ => ElicitResponse::Decline,
        })
    }

    async fn confirm(&self, server: &str, message: &str) -> Option<ElicitResponse> {
        let option = |label: &str| serde_json::from_value(json!({ "label": label })).ok();
        let question = Question {
            question: if message.is_empty() { "May it continue?".to_owned() } else { message.to_owned() },
            header: Some(server.to_owned()),
            options: ["Yes", "No"].into_iter().filter_map(option).collect(),
            multi_select: false,
        };
        let answers = self.answers(vec![question]).await?;
        let yes = answers.first().is_some_and(|answer| answer.answer.trim().eq_ignore_ascii_case("yes"));
        Some(if yes { ElicitResponse::Accept(Some(json!({}))) } else { ElicitResponse::Decline })
    }

    /// Asks and waits. `None` if the turn was interrupted or the question cannot be asked.
    async fn answers(&self, questions: Vec<Question>) -> Option<Vec<pilothouse_domain::value::Answer>> {
        let id = ToolCallId::parse(format!("elicitation-{}", Uuid::now_v7())).ok()?;
        let open = OpenQuestion::new(id.clone(), self.events.clone());
        let asked =
            RawEvent::QuestionAsked { request_id: id.clone(), questions, approval: None, proposal: None };
        self.events.emit(asked).await.ok()?;
        let answers = self.requests.ask(id).await.ok()?;
        open.answered();
        Some(answers)
    }
}

#[async_trait]
impl Elicit for AskOwner {
    async fn elicit(&self, request: ElicitRequest) -> ElicitResponse {
        let ElicitRequest { server, message, kind } = request;
        match kind {
            ElicitKind::Form(schema) => {
                self.ask(&server, &message, &schema).await.unwrap_or(ElicitResponse::Cancel)
            }
            ElicitKind::Url(url) => {
                let summary = format!(
                    "the MCP server {server} wants you to open a page, which is declined: whether you were there cannot \
                     be known here"
                );
                let detail = json!({ "message": message, "url": url });
                // Other tasks report a failed spool.
                let _ = self.events.emit(detailed_notice("elicitation_declined", summary, detail)).await;
                ElicitResponse::Decline
            }
        }
    }
}
