//! `bash`: runs a command.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::spec;
use crate::bash::BashRunner;
use crate::model::ToolSpec;
use crate::tool::text::{MAX_BYTES, MAX_LINES};
use crate::tool::{Tool, ToolContext, ToolOutput};

/// In seconds: one day.
const MAX_TIMEOUT: u64 = 24 * 60 * 60;

pub(super) struct Bash {
    runner: BashRunner,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    timeout: Option<u64>,
}

impl Bash {
    pub(super) fn new(runner: BashRunner) -> Self {
        let description = format!(
            "Runs a command with bash in the working directory and gives what it wrote (stdout and stderr) and how it \
             ended. Of a long output it shows the last {MAX_LINES} lines or {} KB, and keeps the whole in a file. There \
             is no input. What is left in the background is stopped when the command ends.",
            MAX_BYTES / 1024
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT, "description": "Seconds after which it is stopped"},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        Self { runner, spec: spec("bash", &description, schema) }
    }
}

#[async_trait]
impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let Arguments { command, timeout } = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
        };
        if timeout.is_some_and(|seconds| !(1..=MAX_TIMEOUT).contains(&seconds)) {
            return ToolOutput::error(format!("`timeout` must be 1 to {MAX_TIMEOUT} seconds"));
        }
        let timeout = timeout.map(Duration::from_secs);
        match self.runner.run(&command, timeout, &context.cancelled, &context.progress).await {
            Ok(outcome) => ToolOutput { is_error: outcome.is_error(), ..ToolOutput::text(outcome.text()) },
            Err(error) => ToolOutput::error(format!("the command could not be run: {error}")),
        }
    }
}
