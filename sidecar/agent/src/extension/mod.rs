//! Extensions of an agent (S1 8): hooks around its turns and tools, and additional skills, prompts, tools and slash
//! commands.
//!
//! An [`Extension`] is either linked in, or an [`external`] program that exchanges JSON lines
//! (`docs/agent-extensions.md`). The agent calls all of them in order through [`Extensions`].

pub mod external;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::message::ToolCall;
use crate::resources::ResourceLoader;
use crate::tool::{SharedTool, ToolOutput};

/// By default, every method has no effect.
#[async_trait]
pub trait Extension: Send + Sync {
    /// Name for notices.
    fn name(&self) -> &str;

    fn resources(&self) -> ResourceLoader {
        ResourceLoader::default()
    }

    fn tools(&self) -> Vec<SharedTool> {
        Vec::new()
    }

    fn commands(&self) -> Vec<CommandSpec> {
        Vec::new()
    }

    /// Called before a prompt enters the conversation. May change it and the system prompt of its turns.
    async fn before_agent_start(&self, start: AgentStart) -> AgentStart {
        start
    }

    /// Called before the context is sent to the model. May return another system prompt for this turn.
    async fn turn_start(&self, turn: &TurnStart) -> Option<String> {
        let _ = turn;
        None
    }

    /// Called when the answer and the results of its tools are complete. May return a message for the conversation.
    async fn turn_end(&self, turn: &TurnEnd) -> Option<String> {
        let _ = turn;
        None
    }

    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        let _ = call;
        BeforeTool::Go
    }

    /// Called after a tool has run. May change its result.
    async fn after_tool(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        let _ = call;
        output
    }

    /// Runs one of the extension's slash commands.
    async fn command(&self, name: &str, arguments: &str) -> CommandOutcome {
        let _ = arguments;
        CommandOutcome::Done(format!("/{name} does nothing"))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Name without the slash.
    pub name: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// Carried out. The text is for the person who gave the command.
    Done(String),
    /// The agent gets this prompt instead of the command.
    Prompt(String),
}

/// A prompt that is about to enter the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStart {
    pub prompt: String,
    pub system: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStart {
    /// Counts from 1 for each prompt.
    pub turn: u32,
    pub system: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// As in [`TurnStart`].
    pub turn: u32,
    pub text: String,
    /// Names of the called tools.
    pub tools: Vec<String>,
}

/// Decision on a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeTool {
    Go,
    /// Run it with other arguments, which must match its schema.
    Change(Value),
    /// Do not run it; the reason is for the model.
    Block(String),
}

/// The extensions of an agent, in calling order.
#[derive(Clone, Default)]
pub struct Extensions(Vec<Arc<dyn Extension>>);

impl Extensions {
    pub fn new(extensions: Vec<Arc<dyn Extension>>) -> Self {
        Self(extensions)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The locations of all skills and prompt templates.
    pub fn resources(&self) -> ResourceLoader {
        let mut all = ResourceLoader::default();
        for extension in &self.0 {
            all.extend(extension.resources());
        }
        all
    }

    pub fn tools(&self) -> Vec<SharedTool> {
        self.0.iter().flat_map(|extension| extension.tools()).collect()
    }

    /// The slash commands of all extensions. Of two with the same name, the first wins.
    pub fn commands(&self) -> Vec<CommandSpec> {
        let mut commands: Vec<CommandSpec> = Vec::new();
        for command in self.0.iter().flat_map(|extension| extension.commands()) {
            if commands.iter().all(|known| known.name != command.name) {
                commands.push(command);
            }
        }
        commands
    }

    /// Runs a slash command. `None` if no extension has it.
    pub async fn command(&self, name: &str, arguments: &str) -> Option<CommandOutcome> {
        let has =
            |extension: &&Arc<dyn Extension>| extension.commands().iter().any(|command| command.name == name);
        let extension = self.0.iter().find(has)?;
        Some(extension.command(name, arguments).await)
    }

    /// Passes the result of each extension to the next one.
    pub async fn before_agent_start(&self, mut start: AgentStart) -> AgentStart {
        for extension in &self.0 {
            start = extension.before_agent_start(start).await;
        }
        start
    }

    /// Passes the system prompt of this turn through all extensions.
    pub async fn turn_start(&self, turn: u32, system: String) -> String {
        let mut turn = TurnStart { turn, system };
        for extension in &self.0 {
            if let Some(system) = extension.turn_start(&turn).await {
                turn.system = system;
            }
        }
        turn.system
    }

    /// Returns the extensions' messages for the conversation.
    pub async fn turn_end(&self, turn: &TurnEnd) -> Vec<String> {
        let mut messages = Vec::new();
        for extension in &self.0 {
            messages.extend(extension.turn_end(turn).await);
        }
        messages
    }

    /// Asks all extensions whether a tool may run. Returns the changed call, or the reason of the first extension that
    /// blocks it.
    pub async fn before_tool(&self, mut call: ToolCall) -> Result<ToolCall, String> {
        for extension in &self.0 {
            match extension.before_tool(&call).await {
                BeforeTool::Go => {}
                BeforeTool::Change(arguments) => call.arguments = arguments,
                BeforeTool::Block(reason) => return Err(reason),
            }
        }
        Ok(call)
    }

    /// Passes the result through all extensions.
    pub async fn after_tool(&self, call: &ToolCall, mut output: ToolOutput) -> ToolOutput {
        for extension in &self.0 {
            output = extension.after_tool(call, output).await;
        }
        output
    }
}

impl std::fmt::Debug for Extensions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|extension| extension.name())).finish()
    }
}
