//! A tool of an external extension.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;

use super::connection::Connection;
use super::protocol::{Request, ToolResponse, ToolSpecLine};
use crate::model::ToolSpec;
use crate::tool::{Tool, ToolContext, ToolOutput};

/// Tools may take long and can be cancelled. The limit prevents an endless wait.
const MAX_DURATION: Duration = Duration::from_hours(24);

pub(super) struct ExternalTool {
    spec: ToolSpec,
    connection: Arc<Connection>,
}

impl ExternalTool {
    pub(super) fn new(line: &ToolSpecLine, connection: Arc<Connection>) -> Self {
        let spec = ToolSpec {
            name: line.name.clone(),
            description: line.description.clone(),
            input_schema: line.input_schema.clone(),
        };
        Self { spec, connection }
    }
}

#[async_trait]
impl Tool for ExternalTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let request = Request::Tool {
            tool_call_id: &context.tool_call_id,
            tool: &self.spec.name,
            arguments: &arguments,
        };
        let answered = self.connection.request(request, MAX_DURATION, Some(context.progress.clone()));
        let Some(response) = context.cancelled.run_until_cancelled(answered).await else {
            return ToolOutput::error("The call was stopped.");
        };
        match response.map(serde_json::from_value::<ToolResponse>) {
            Ok(Ok(response)) => ToolOutput {
                content: response.content.into(),
                is_error: response.is_error,
                ends_turn: false,
                may_succeed_later: false,
            },
            Ok(Err(error)) => ToolOutput::error(format!("the extension's answer is not understood: {error}")),
            Err(error) => ToolOutput::error(format!("the extension did not run the tool: {error}")),
        }
    }
}
