//! `record_learning`: the agent stores what it learned about people or communication (AG-014, decision 37).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::agent_api::NewAgentLearning;
use serde_json::Value;

use super::arguments;
use crate::agent_api::AgentApi;

pub const NAME: &str = "record_learning";

const DESCRIPTION: &str = "Keeps something that you learned about a person (who they are, what they look after, what they \
prefer) or about communication (channels, tone, habits), for later sessions. What you learned with a skill is a \
memory pill instead.";

pub struct RecordLearningTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl RecordLearningTool {
    pub fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<NewAgentLearning>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for RecordLearningTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let learning: NewAgentLearning = match arguments::read(arguments) {
            Ok(learning) => learning,
            Err(wrong) => return wrong,
        };
        let body = serde_json::to_value(&learning).unwrap_or_default();
        self.api.post("learnings", &body, |_| "It is recorded.".to_owned()).await
    }
}
