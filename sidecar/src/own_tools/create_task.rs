//! `create_task`: the agent reports work that is not part of its own task (S0 8.7 `AgentCreateTaskCommand`, AG-012).

use async_trait::async_trait;
use pilothouse_agent::model::ToolSpec;
use pilothouse_agent::tool::{Tool, ToolContext, ToolOutput};
use pilothouse_domain::agent_api::NewAgentTask;
use serde_json::Value;

use super::arguments;
use crate::agent_api::AgentApi;

pub const NAME: &str = "create_task";

const DESCRIPTION: &str = "Creates a follow-up task for whoever looks after tasks: something that should be done and is not \
part of your own work. It is not for your own list of steps.";

pub struct CreateTaskTool {
    spec: ToolSpec,
    api: AgentApi,
}

impl CreateTaskTool {
    pub fn new(api: AgentApi) -> Self {
        Self { spec: arguments::spec::<NewAgentTask>(NAME, DESCRIPTION), api }
    }
}

#[async_trait]
impl Tool for CreateTaskTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let task: NewAgentTask = match arguments::read(arguments) {
            Ok(task) => task,
            Err(wrong) => return wrong,
        };
        let body = serde_json::to_value(&task).unwrap_or_default();
        let done = |response: &Value| match response.get("taskId").and_then(Value::as_str) {
            Some(id) => format!("The task is created: {id}."),
            None => "The task is created.".to_owned(),
        };
        self.api.post("tasks", &body, done).await
    }
}
