//! `AskUserQuestion`: asks the owner and waits for the answer (S0 8.3, decision 26). The control plane recognises the
//! call by its name, and sees it before the tool runs.

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::Question;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use super::requests::Requests;
use crate::tool_names::ASK_USER_QUESTION;

pub const NAME: &str = ASK_USER_QUESTION;
const MAX_QUESTIONS: usize = 10;

const DESCRIPTION: &str = "Asks your owner, and waits for the answer. Use it when you cannot go on without a decision that is \
not yours. Give options to choose from where you can; the owner may answer in their own words anyway.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// What you ask: 1 to 10 questions, each with a text of its own.
    #[schemars(length(min = 1, max = 10))]
    questions: Vec<Question>,
}

pub struct AskTool {
    spec: ToolSpec,
    requests: Requests,
}

impl AskTool {
    /// The tool waits for answers in `requests`.
    pub fn new(requests: Requests) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), requests }
    }
}

/// The id of the request that a call opens.
pub(super) fn request(context: &ToolContext) -> Result<ToolCallId, ToolOutput> {
    ToolCallId::parse(context.tool_call_id.clone())
        .map_err(|e| ToolOutput::error(format!("The owner cannot be asked: {e}.")))
}

#[async_trait]
impl Tool for AskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let Arguments { questions } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        if !(1..=MAX_QUESTIONS).contains(&questions.len())
            || questions.iter().any(|q| q.question.trim().is_empty())
        {
            return ToolOutput::error("Ask 1 to 10 questions, each with a text.");
        }
        let request = match request(&context) {
            Ok(request) => request,
            Err(wrong) => return wrong,
        };
        tokio::select! {
            answered = self.requests.ask(request) => match answered {
                Ok(answers) => ToolOutput::text(json!({ "answers": answers }).to_string()),
                Err(withdrawn) => ToolOutput::error(withdrawn.to_string()),
            },
            () = context.cancelled.cancelled() => ToolOutput::error("The turn was interrupted before the owner answered."),
        }
    }
}
