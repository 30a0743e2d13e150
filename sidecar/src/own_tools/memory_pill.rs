//! `memory_pill`: the agent stores what it learned about a skill (S0 8.7 `AgentRecordMemoryPillCommand`, AG-036).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::AgentSkillId;
use pilothouse_domain::skill::MemoryPillCategory;
use pilothouse_domain::text::MemoryPillContent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::agent_api::AgentApi;

pub const NAME: &str = "memory_pill";

const DESCRIPTION: &str = "Records something that you learned and that sessions with the same skill should know: a mistake \
to avoid, a tip, a guideline, a pattern or a convention. One thing a call. The heading of each skill names its id.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The id of the skill that it belongs to.
    skill_id: AgentSkillId,
    /// What you learned.
    content: MemoryPillContent,
    /// What kind of learning it is.
    category: MemoryPillCategory,
}

pub struct MemoryPillTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl MemoryPillTool {
    pub fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for MemoryPillTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { skill_id, content, category } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let body = json!({ "content": content, "category": category });
        self.api
            .post(&format!("skills/{skill_id}/memory-pills"), &body, |_| "It is recorded.".to_owned())
            .await
    }
}
