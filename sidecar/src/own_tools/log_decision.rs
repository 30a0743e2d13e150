//! `log_decision`: the agent logs a decision (S0 8.7 `AgentLogDecisionCommand`, AG-013).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::text::DecisionText;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::agent_api::AgentApi;

pub const NAME: &str = "log_decision";

const DESCRIPTION: &str = "Logs a decision of yours with its reason, for the people who review the work: a choice between \
real alternatives, an assumption, a deviation from what was asked.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// What was decided, and why.
    content: DecisionText,
}

pub struct LogDecisionTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl LogDecisionTool {
    pub fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for LogDecisionTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { content } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let path = format!("sessions/{}/log", self.api.session());
        self.api.post(&path, &json!({ "content": content }), |_| "It is logged.".to_owned()).await
    }
}
