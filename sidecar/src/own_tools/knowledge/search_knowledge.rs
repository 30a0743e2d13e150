//! `search_knowledge`: the agent searches the artifacts and objectives of its project.

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent_api::AgentApi;
use crate::own_tools::arguments;

const NAME: &str = "search_knowledge";

const DESCRIPTION: &str = "Searches the artifacts of the project and the objectives of its agents by words: names, tags, paths and the \
beginning of texts. Returns ids for `read_artifact`. Only of your workstream and of those that you may read.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The words to search for: at most 8. Results that have more of them come first.
    query: String,
}

pub(super) struct SearchKnowledgeTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl SearchKnowledgeTool {
    pub(super) fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for SearchKnowledgeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { query } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let path = format!("sessions/{}/knowledge", self.api.session());
        self.api.get(&path, &[("query", query)], Value::to_string).await
    }
}
