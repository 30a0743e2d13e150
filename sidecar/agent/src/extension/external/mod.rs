//! Extensions that run as programs and exchange JSON lines on standard input and output. `docs/agent-extensions.md`
//! describes the protocol.
//!
//! Every wait has a configured limit. An extension that does not answer in time is skipped. One that repeatedly does
//! not answer, ends, or writes an invalid line is disabled with a notice.

mod connection;
mod protocol;
mod tool;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use self::connection::{Connection, RequestError};
use self::protocol::{
    AfterToolResponse, BeforeStartResponse, BeforeToolResponse, CommandResponse, Hello, HookName, Request,
    TurnEndResponse, TurnStartResponse,
};
use self::tool::ExternalTool;
use super::{AgentStart, BeforeTool, CommandOutcome, CommandSpec, Extension, TurnEnd, TurnStart};
use crate::message::ToolCall;
use crate::process::Program;
use crate::resources::ResourceLoader;
use crate::tool::{SharedTool, ToolOutput};

pub use self::protocol::PROTOCOL;

/// Receives sentences for people about problems with an extension.
pub type Notify = Arc<dyn Fn(String) + Send + Sync>;

/// A program that extends the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalConfig {
    pub name: String,
    pub program: Program,
    /// Time limit for its hello.
    pub start_timeout: Duration,
    /// Time limit for a hook.
    pub hook_timeout: Duration,
    /// Time limit for a slash command.
    pub command_timeout: Duration,
    /// Whether tools are blocked while the extension cannot decide, because it enforces a policy.
    pub required: bool,
}

impl ExternalConfig {
    /// Defaults: ten seconds to start, five for a hook, one minute for a command; not required.
    pub fn new(name: impl Into<String>, program: Program) -> Self {
        Self {
            name: name.into(),
            program,
            start_timeout: Duration::from_secs(10),
            hook_timeout: Duration::from_secs(5),
            command_timeout: Duration::from_mins(1),
            required: false,
        }
    }
}

/// Why a program cannot be used as an extension.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    #[error("failed to start the extension {name}: {source}")]
    Start { name: String, source: std::io::Error },
    /// The program did not send a valid hello.
    #[error("the extension {name} did not say hello: {reason}")]
    Hello {
        name: String,
        /// Why no valid hello arrived, such as another message or a timeout.
        reason: String,
    },
}

/// A running extension that has sent its hello.
pub struct External {
    config: ExternalConfig,
    hello: Hello,
    connection: Arc<Connection>,
}

impl External {
    /// Starts a program and waits for its hello. Skips unusable parts of it with a notice.
    pub async fn start(config: ExternalConfig, notify: Notify) -> Result<Self, ExternalError> {
        let (name, cwd) = (config.name.clone(), config.program.cwd.clone());
        let opened = Connection::open(&name, &config.program, notify.clone());
        let (connection, hello) =
            opened.map_err(|source| ExternalError::Start { name: name.clone(), source })?;
        let said = connection.handshake(&cwd, hello, config.start_timeout).await;
        let mut hello = said.map_err(|reason| {
            connection.end();
            ExternalError::Hello { name: name.clone(), reason }
        })?;
        for unusable in hello.leave_out_unusable() {
            notify(format!("extension {name}: {unusable}"));
        }
        Ok(Self { config, hello, connection: Arc::new(connection) })
    }

    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Calls a hook. `None` if the program does not subscribe to it, does not answer, or is dead.
    async fn hook<A: DeserializeOwned>(
        &self,
        hook: HookName,
        request: Request<'_>,
    ) -> Result<Option<A>, RequestError> {
        if !self.hello.subscribe.contains(&hook) {
            return Ok(None);
        }
        let response = self.connection.request(request, self.config.hook_timeout, None).await?;
        serde_json::from_value(response).map(Some).map_err(|error| {
            let error = format!("the answer to {} is not understood: {error}", hook.name());
            self.connection.notice(&error);
            RequestError::Refused(error)
        })
    }
}

#[async_trait]
impl Extension for External {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn resources(&self) -> ResourceLoader {
        let absolute =
            |paths: &[PathBuf]| paths.iter().map(|path| self.config.program.cwd.join(path)).collect();
        ResourceLoader { skills: absolute(&self.hello.skills), prompts: absolute(&self.hello.prompts) }
    }

    fn tools(&self) -> Vec<SharedTool> {
        let tool = |spec: &protocol::ToolSpecLine| -> SharedTool {
            Arc::new(ExternalTool::new(spec, self.connection.clone()))
        };
        self.hello.tools.iter().map(tool).collect()
    }

    fn commands(&self) -> Vec<CommandSpec> {
        let command = |line: &protocol::CommandLine| CommandSpec {
            name: line.name.clone(),
            description: line.description.clone(),
        };
        self.hello.commands.iter().map(command).collect()
    }

    async fn before_agent_start(&self, start: AgentStart) -> AgentStart {
        let request = Request::BeforeAgentStart { prompt: &start.prompt, system: &start.system };
        match self.hook::<BeforeStartResponse>(HookName::BeforeAgentStart, request).await {
            Ok(Some(response)) => AgentStart {
                prompt: response.prompt.unwrap_or(start.prompt),
                system: response.system.unwrap_or(start.system),
            },
            Ok(None) | Err(_) => start,
        }
    }

    async fn turn_start(&self, turn: &TurnStart) -> Option<String> {
        let request = Request::TurnStart { turn: turn.turn, system: &turn.system };
        let response = self.hook::<TurnStartResponse>(HookName::TurnStart, request).await;
        response.ok().flatten().and_then(|response| response.system)
    }

    async fn turn_end(&self, turn: &TurnEnd) -> Option<String> {
        let request = Request::TurnEnd { turn: turn.turn, text: &turn.text, tools: &turn.tools };
        let response = self.hook::<TurnEndResponse>(HookName::TurnEnd, request).await;
        response.ok().flatten().and_then(|response| response.message)
    }

    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        let request =
            Request::BeforeTool { tool_call_id: &call.id, tool: &call.name, arguments: &call.arguments };
        match self.hook::<BeforeToolResponse>(HookName::BeforeTool, request).await {
            Ok(Some(BeforeToolResponse { block: Some(reason), .. })) => BeforeTool::Block(reason),
            Ok(Some(BeforeToolResponse { arguments: Some(arguments), .. })) => BeforeTool::Change(arguments),
            Err(error) if self.config.required => BeforeTool::Block(format!(
                "the extension {}, without which no tool may run, did not allow it: {error}",
                self.config.name
            )),
            Ok(_) | Err(_) => BeforeTool::Go,
        }
    }

    async fn after_tool(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        let request = Request::AfterTool {
            tool_call_id: &call.id,
            tool: &call.name,
            arguments: &call.arguments,
            content: &output.content,
            is_error: output.is_error,
        };
        match self.hook::<AfterToolResponse>(HookName::AfterTool, request).await {
            Ok(Some(response)) => ToolOutput {
                content: response.content.map_or(output.content, Into::into),
                is_error: response.is_error.unwrap_or(output.is_error),
                ends_turn: output.ends_turn,
                may_succeed_later: output.may_succeed_later,
            },
            Ok(None) | Err(_) => output,
        }
    }

    async fn command(&self, name: &str, arguments: &str) -> CommandOutcome {
        let request = Request::Command { name, arguments };
        let response = self.connection.request(request, self.config.command_timeout, None).await;
        let response = response.and_then(|response| {
            serde_json::from_value(response).map_err(|error| RequestError::Refused(error.to_string()))
        });
        match response {
            Ok(CommandResponse { prompt: Some(prompt), .. }) => CommandOutcome::Prompt(prompt),
            Ok(CommandResponse { text, .. }) => CommandOutcome::Done(text.unwrap_or_default()),
            Err(error) => CommandOutcome::Done(format!("/{name} failed: {error}")),
        }
    }
}
