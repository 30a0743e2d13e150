//! Extensions that are programs: JSON lines on their standard input and output. `docs/agent-extensions.md` is the protocol.
//!
//! The agent never waits for one longer than it was configured to. One that does not answer in time is passed over; one
//! that does so again and again, that ends, or that writes what is no message is gone, with a notice.

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
    AfterToolAnswer, BeforeStartAnswer, BeforeToolAnswer, CommandAnswer, Hello, HookName, Request,
    TurnEndAnswer, TurnStartAnswer,
};
use self::tool::ExternalTool;
use super::{AgentStart, BeforeTool, CommandOutcome, CommandSpec, Extension, TurnEnd, TurnStart};
use crate::message::ToolCall;
use crate::process::Program;
use crate::resources::ResourceLoader;
use crate::tool::{SharedTool, ToolOutput};

pub use self::protocol::PROTOCOL;

/// Takes sentences for a person: what went wrong with an extension.
pub type Notify = Arc<dyn Fn(String) + Send + Sync>;

/// A program that extends the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalConfig {
    /// What it is called in notices.
    pub name: String,
    /// The program.
    pub program: Program,
    /// How long it may take to say hello.
    pub start_timeout: Duration,
    /// How long it may take to answer a hook.
    pub hook_timeout: Duration,
    /// How long one of its commands may take.
    pub command_timeout: Duration,
    /// Whether no tool runs while it cannot say whether it may: it is a guard, not a help.
    pub required: bool,
}

impl ExternalConfig {
    /// Ten seconds to start, five for a hook, a minute for a command; not required.
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

/// Why a program cannot be an extension.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// It cannot be started.
    #[error("the extension {name} cannot be started: {source}")]
    Start {
        /// Its name.
        name: String,
        /// Why.
        source: std::io::Error,
    },
    /// It did not say hello.
    #[error("the extension {name} did not say hello: {reason}")]
    Hello {
        /// Its name.
        name: String,
        /// What it did.
        reason: String,
    },
}

/// A program that runs and said hello.
pub struct External {
    config: ExternalConfig,
    hello: Hello,
    connection: Arc<Connection>,
}

impl External {
    /// Starts a program and waits for its hello. What of that cannot be used is left out with a notice.
    pub async fn start(config: ExternalConfig, notify: Notify) -> Result<Self, ExternalError> {
        let (name, cwd) = (config.name.clone(), config.program.cwd.clone());
        let opened = Connection::open(&name, &config.program, notify.clone());
        let (connection, hello) =
            opened.map_err(|source| ExternalError::Start { name: name.clone(), source })?;
        let said = connection.greet(&cwd, hello, config.start_timeout).await;
        let mut hello = said.map_err(|reason| {
            connection.end();
            ExternalError::Hello { name: name.clone(), reason }
        })?;
        for unusable in hello.leave_out_unusable() {
            notify(format!("extension {name}: {unusable}"));
        }
        Ok(Self { config, hello, connection: Arc::new(connection) })
    }

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Asks about a hook. None when it does not want to know, does not answer, or is gone.
    async fn hook<A: DeserializeOwned>(
        &self,
        hook: HookName,
        request: Request<'_>,
    ) -> Result<Option<A>, RequestError> {
        if !self.hello.subscribe.contains(&hook) {
            return Ok(None);
        }
        let answer = self.connection.request(request, self.config.hook_timeout, None).await?;
        serde_json::from_value(answer).map(Some).map_err(|error| {
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
        match self.hook::<BeforeStartAnswer>(HookName::BeforeAgentStart, request).await {
            Ok(Some(answer)) => AgentStart {
                prompt: answer.prompt.unwrap_or(start.prompt),
                system: answer.system.unwrap_or(start.system),
            },
            Ok(None) | Err(_) => start,
        }
    }

    async fn turn_start(&self, turn: &TurnStart) -> Option<String> {
        let request = Request::TurnStart { turn: turn.turn, system: &turn.system };
        let answer = self.hook::<TurnStartAnswer>(HookName::TurnStart, request).await;
        answer.ok().flatten().and_then(|answer| answer.system)
    }

    async fn turn_end(&self, turn: &TurnEnd) -> Option<String> {
        let request = Request::TurnEnd { turn: turn.turn, text: &turn.text, tools: &turn.tools };
        let answer = self.hook::<TurnEndAnswer>(HookName::TurnEnd, request).await;
        answer.ok().flatten().and_then(|answer| answer.message)
    }

    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        let request =
            Request::BeforeTool { tool_call_id: &call.id, tool: &call.name, arguments: &call.arguments };
        match self.hook::<BeforeToolAnswer>(HookName::BeforeTool, request).await {
            Ok(Some(BeforeToolAnswer { block: Some(reason), .. })) => BeforeTool::Block(reason),
            Ok(Some(BeforeToolAnswer { arguments: Some(arguments), .. })) => BeforeTool::Change(arguments),
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
        match self.hook::<AfterToolAnswer>(HookName::AfterTool, request).await {
            Ok(Some(answer)) => ToolOutput {
                content: answer.content.map_or(output.content, Into::into),
                is_error: answer.is_error.unwrap_or(output.is_error),
                ends_turn: output.ends_turn,
            },
            Ok(None) | Err(_) => output,
        }
    }

    async fn command(&self, name: &str, arguments: &str) -> CommandOutcome {
        let request = Request::Command { name, arguments };
        let answer = self.connection.request(request, self.config.command_timeout, None).await;
        let answer = answer.and_then(|answer| {
            serde_json::from_value(answer).map_err(|error| RequestError::Refused(error.to_string()))
        });
        match answer {
            Ok(CommandAnswer { prompt: Some(prompt), .. }) => CommandOutcome::Prompt(prompt),
            Ok(CommandAnswer { text, .. }) => CommandOutcome::Done(text.unwrap_or_default()),
            Err(error) => CommandOutcome::Done(format!("/{name} failed: {error}")),
        }
    }
}
