//! `propose_consolidation`: the agent of a consolidation hands in the new instructions of the skill (decision 52).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::text::SkillInstructions;
use pilothouse_domain::{AgentSkillId, MemoryPillId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::agent_api::AgentApi;

pub const NAME: &str = "propose_consolidation";

const DESCRIPTION: &str = "Hands in new instructions of the skill that this session consolidates. Only a session that was \
started for a skill improvement can use it. Calling it again replaces the proposal. Nothing is applied before the owner of the \
skill closes or approves this session.";

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Arguments {
    /// The id of the skill.
    skill_id: AgentSkillId,
    /// The ids of the memory pills that the new instructions hold, or that were covered already.
    pill_ids: Vec<MemoryPillId>,
    /// The whole new instructions.
    updated_instructions: SkillInstructions,
}

pub struct ProposeConsolidationTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl ProposeConsolidationTool {
    pub fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<Arguments>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for ProposeConsolidationTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let Arguments { skill_id, pill_ids, updated_instructions } = match arguments::read(arguments) {
            Ok(arguments) => arguments,
            Err(wrong) => return wrong,
        };
        let body = json!({ "pillIds": pill_ids, "updatedInstructions": updated_instructions });
        self.api
            .post(&format!("skills/{skill_id}/consolidation"), &body, |_| "It is proposed.".to_owned())
            .await
    }
}
