//! `bash`: runs a command. `bash_output` and `bash_stop`: what it does in the background.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::spec;
use crate::bash::{BackgroundCommands, BashRunner, Reading, UnknownCommand};
use crate::model::ToolSpec;
use crate::output_text::{MAX_BYTES, MAX_LINES};
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
    #[serde(default)]
    background: bool,
}

impl Bash {
    pub(super) fn new(runner: BashRunner) -> Self {
        let description = format!(
            "Runs a command with bash in the working directory and gives what it wrote (stdout and stderr) and how it \
             ended. Of a long output it shows the last {MAX_LINES} lines or {} KB, and keeps the whole in a file. There \
             is no input. What is left in the background is stopped when the command ends. With `background`, the command \
             runs beside your next calls, for example a server that you test: read what it writes with `bash_output`, and \
             end it with `bash_stop`. It is stopped at the latest when your work ends.",
            MAX_BYTES / 1024
        );
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "string", "minLength": 1, "description": "The command"},
                "timeout": {"type": "integer", "minimum": 1, "maximum": MAX_TIMEOUT, "description": "Seconds after which it is stopped"},
                "background": {"type": "boolean", "description": "Whether it runs beside your next calls"},
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
        let Arguments { command, timeout, background } = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
        };
        if timeout.is_some_and(|seconds| !(1..=MAX_TIMEOUT).contains(&seconds)) {
            return ToolOutput::error(format!("`timeout` must be 1 to {MAX_TIMEOUT} seconds"));
        }
        let timeout = timeout.map(Duration::from_secs);
        if background {
            return match self.runner.background().start(self.runner.config(), &command, timeout).await {
                Ok(number) => ToolOutput::text(format!("Background command {number} is running.")),
                Err(error) => ToolOutput::error(error),
            };
        }
        match self.runner.run(&command, timeout, &context.cancelled, &context.progress).await {
            Ok(outcome) => ToolOutput { is_error: outcome.is_error(), ..ToolOutput::text(outcome.text()) },
            Err(error) => ToolOutput::error(format!("the command could not be run: {error}")),
        }
    }
}

/// In seconds.
const MAX_WAIT: u64 = 600;

pub(super) struct BashOutput {
    commands: BackgroundCommands,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct OutputArguments {
    command: u32,
    wait: Option<u64>,
}

impl BashOutput {
    pub(super) fn new(commands: BackgroundCommands) -> Self {
        let description =
            "Gives what a background command wrote since you read it last, and whether it has ended.";
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "integer", "minimum": 1, "description": "The number of the background command"},
                "wait": {"type": "integer", "minimum": 0, "maximum": MAX_WAIT, "description": "Seconds to wait for output or the end. Default: 0"},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        Self { commands, spec: spec("bash_output", description, schema) }
    }
}

#[async_trait]
impl Tool for BashOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, context: ToolContext) -> ToolOutput {
        let OutputArguments { command, wait } = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
        };
        let wait = Duration::from_secs(wait.unwrap_or_default().min(MAX_WAIT));
        shown(self.commands.read(command, wait, &context.cancelled).await)
    }
}

pub(super) struct BashStop {
    commands: BackgroundCommands,
    spec: ToolSpec,
}

#[derive(Deserialize)]
struct StopArguments {
    command: u32,
}

impl BashStop {
    pub(super) fn new(commands: BackgroundCommands) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": {"type": "integer", "minimum": 1, "description": "The number of the background command"},
            },
            "required": ["command"],
            "additionalProperties": false,
        });
        let description =
            "Ends a background command with everything that it started, and gives the rest of its output.";
        Self { commands, spec: spec("bash_stop", description, schema) }
    }
}

#[async_trait]
impl Tool for BashStop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn run(&self, arguments: Value, _: ToolContext) -> ToolOutput {
        let StopArguments { command } = match serde_json::from_value(arguments) {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutput::error(format!("the arguments do not fit: {error}")),
        };
        shown(self.commands.stop(command).await)
    }
}

fn shown(read: Result<Reading, UnknownCommand>) -> ToolOutput {
    match read {
        Ok(reading) => ToolOutput { is_error: reading.is_error(), ..ToolOutput::text(reading.text()) },
        Err(unknown) => ToolOutput::error(unknown.to_string()),
    }
}
