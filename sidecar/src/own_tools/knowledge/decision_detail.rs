//! `decision_detail`: the agent reads a decision of its project.

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::DecisionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent_api::AgentApi;
use crate::own_tools::arguments;

const NAME: &str = "decision_detail";

const DESCRIPTION: &str = "Shows a decision of the project that waits for a person or was made: its question, its options and how it \
was resolved. Only decisions of your workstream and of those that you may read.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The id of the decision.
    decision_id: DecisionId,
}

pub(super) struct DecisionDetailTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl DecisionDetailTool {
    pub(super) fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for DecisionDetailTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { decision_id } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let path = format!("sessions/{}/decisions/{decision_id}", self.api.session());
        self.api.get(&path, &[], Value::to_string).await
    }
}
