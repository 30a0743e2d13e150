//! A tool of a server.

use std::sync::Arc;

use async_trait::async_trait;
use rmcp::model::CallToolRequestParams;
use serde_json::Value;

use super::content::output;
use super::names::ToolNames;
use super::server::Server;
use crate::model::ToolSpec;
use crate::tool::{Tool, ToolContext, ToolOutput};

pub(super) struct McpTool {
    server: Arc<Server>,
    /// The server's name for the tool.
    name: String,
    spec: ToolSpec,
}

impl McpTool {
    /// The error says why the tool cannot be used.
    pub(super) fn new(
        server: Arc<Server>,
        tool: &rmcp::model::Tool,
        names: &mut ToolNames,
    ) -> Result<Self, String> {
        let left_out =
            |why| format!("the tool `{}` of the MCP server {} is skipped: {why}", tool.name, server.name());
        let input_schema = Value::Object(tool.input_schema.as_ref().clone());
        if !jsonschema::meta::is_valid(&input_schema) {
            return Err(left_out("its schema is not a valid JSON Schema"));
        }
        let name = names
            .assign(server.name(), &tool.name)
            .ok_or_else(|| left_out("another tool has the same name"))?;
        let description =
            tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default().to_owned();
        let spec = ToolSpec { name, description, input_schema };
        Ok(Self { server, name: tool.name.to_string(), spec })
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let mut params = CallToolRequestParams::new(self.name.clone());
        match arguments {
            Value::Object(arguments) => params = params.with_arguments(arguments),
            Value::Null => {}
            _ => return ToolOutput::error("the arguments are no object"),
        }
        let started = self.server.observed();
        match context.cancelled.run_until_cancelled(self.server.call(params)).await {
            Some(Ok(result)) => output(result),
            Some(Err(error)) => ToolOutput::error(error.to_string()),
            None => {
                // The server was notified. Commands that it started for the call must end even if it ignores the
                // notification.
                if let Some(started) = started
                    && let Err(error) = started.end(false).await
                {
                    tracing::warn!(%error, server = self.server.name(), "a call was stopped");
                }
                ToolOutput::error("The call was stopped.")
            }
        }
    }
}
