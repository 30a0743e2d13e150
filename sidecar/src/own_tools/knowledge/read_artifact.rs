//! `read_artifact`: the agent reads an artifact of its project.

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::ArtifactId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::agent_api::AgentApi;
use crate::own_tools::arguments;

const NAME: &str = "read_artifact";

const DESCRIPTION: &str = "Reads an artifact of the project: its description and its text, in parts of 20,000 characters. Only artifacts \
of your workstream and of those that you may read. `search_knowledge` finds ids.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The id of the artifact.
    artifact_id: ArtifactId,
    /// The version to read. Default: the latest one.
    #[serde(default)]
    version: Option<u32>,
    /// Where the part begins, in characters: the `nextOffset` of the part before. Default: 0.
    #[serde(default)]
    offset: Option<usize>,
}

pub(super) struct ReadArtifactTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl ReadArtifactTool {
    pub(super) fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for ReadArtifactTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { artifact_id, version, offset } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let path = format!("sessions/{}/artifacts/{artifact_id}", self.api.session());
        let version = version.map(|version| ("version", version.to_string()));
        let offset = offset.map(|offset| ("offset", offset.to_string()));
        let query: Vec<_> = version.into_iter().chain(offset).collect();
        self.api.get(&path, &query, Value::to_string).await
    }
}
