//! `flag_coherence`: the agent reports work of other agents that does not fit its own (S2 `CoherenceEvent`).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::ArtifactId;
use pilothouse_domain::coherence::CoherenceCategory;
use pilothouse_domain::effect::Severity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent_api::AgentApi;
use crate::own_tools::arguments;

const NAME: &str = "flag_coherence";

const DESCRIPTION: &str = "Tells people that work in the project does not fit together: two results contradict each other, do the same \
work twice, leave a gap between them, or depend on something they should not. A person decides on it; continue with your work.";

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The problem in a line.
    title: String,
    /// The problem in sentences: what each side says, and where.
    description: String,
    /// In which way the parts do not fit.
    category: CoherenceCategory,
    /// How bad it is. Default: medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    severity: Option<Severity>,
    /// The ids of the artifacts that it concerns, at most 20. `search_knowledge` finds ids.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    affected_artifact_ids: Vec<ArtifactId>,
    /// Further workstreams that it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    affected_workstreams: Vec<String>,
}

pub(super) struct FlagCoherenceTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl FlagCoherenceTool {
    pub(super) fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for FlagCoherenceTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let arguments: Arguments = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let body = match serde_json::to_value(&arguments) {
            Ok(body) => body,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        let path = format!("sessions/{}/coherence", self.api.session());
        self.api.post(&path, &body, Value::to_string).await
    }
}
