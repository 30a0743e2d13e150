//! `write`: writes a file.

use std::sync::Arc;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{blocking, spec};
use crate::model::ToolSpec;
use crate::tool::{Tool, ToolContext, ToolOutput};
use crate::workspace::Workspace;

pub(super) struct Write {
    workspace: Arc<Workspace>,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

impl Write {
    pub(super) fn new(workspace: Arc<Workspace>) -> Self {
        let description = "Writes a whole file, and creates the folders on the way. What was there is replaced: use \
                           `edit` to change a part of it.";
        let schema = json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, relative to the working directory or absolute"},
                "content": {"type": "string", "description": "All that it is to hold"},
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        Self { workspace, spec: spec("write", description, schema) }
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let workspace = self.workspace.clone();
        blocking(arguments, &context, move |Arguments { path, content }, _| {
            let entry = workspace.find_to_write(&path).map_err(|error| error.to_string())?;
            let existed = entry.replace(content.as_bytes()).map_err(|error| error.to_string())?;
            let done = if existed { "Replaced" } else { "Created" };
            Ok(ToolOutput::text(format!("{done} {} ({} bytes).", entry.relative().display(), content.len())))
        })
        .await
    }
}
