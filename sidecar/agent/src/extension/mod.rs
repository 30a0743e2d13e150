//! What others add to an agent (S1 8): hooks around its turns and tools, skills, prompts, tools and slash commands.
//!
//! An [`Extension`] is code that is linked in, or an [`external`] program that speaks JSON lines
//! (`docs/agent-extensions.md`). The agent asks all of them, in their order, through [`Extensions`].

pub mod external;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::message::ToolCall;
use crate::resources::ResourceLoader;
use crate::tool::{SharedTool, ToolOutput};

/// Something that is added to an agent. Every method does nothing unless it is said otherwise.
#[async_trait]
pub trait Extension: Send + Sync {
    /// What it is called in notices.
    fn name(&self) -> &str;

    /// Where its skills and prompt templates are.
    fn resources(&self) -> ResourceLoader {
        ResourceLoader::default()
    }

    /// Its tools.
    fn tools(&self) -> Vec<SharedTool> {
        Vec::new()
    }

    /// Its slash commands.
    fn commands(&self) -> Vec<CommandSpec> {
        Vec::new()
    }

    /// A prompt is about to go into the conversation; both it and the system prompt of its turns may be changed.
    async fn before_agent_start(&self, start: AgentStart) -> AgentStart {
        start
    }

    /// The context is about to go to the model; a system prompt for this turn alone, when it is to be another.
    async fn turn_start(&self, turn: &TurnStart) -> Option<String> {
        let _ = turn;
        None
    }

    /// The answer and the results of its tools are there; a message for the conversation, when there is one.
    async fn turn_end(&self, turn: &TurnEnd) -> Option<String> {
        let _ = turn;
        None
    }

    /// A tool is about to run.
    async fn before_tool(&self, call: &ToolCall) -> BeforeTool {
        let _ = call;
        BeforeTool::Go
    }

    /// A tool has run; its result may be changed.
    async fn after_tool(&self, call: &ToolCall, output: ToolOutput) -> ToolOutput {
        let _ = call;
        output
    }

    /// One of its slash commands was given.
    async fn command(&self, name: &str, arguments: &str) -> CommandOutcome {
        let _ = arguments;
        CommandOutcome::Done(format!("/{name} does nothing"))
    }
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSpec {
    /// Its name, without the slash.
    pub name: String,
    /// What it does, for a person.
    pub description: String,
}

/// What became of a slash command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It did what it does; a text for the person who gave it.
    Done(String),
    /// The agent gets this prompt in its place.
    Prompt(String),
}

/// A prompt that is about to go into the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStart {
    /// Its text.
    pub prompt: String,
    /// The system prompt.
    pub system: String,
}

/// A turn that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnStart {
    /// Counts from 1 with each prompt.
    pub turn: u32,
    /// The system prompt.
    pub system: String,
}

/// A turn that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnEnd {
    /// As in [`TurnStart`].
    pub turn: u32,
    /// What the model said.
    pub text: String,
    /// The tools that it called.
    pub tools: Vec<String>,
}

/// What becomes of a tool call that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub enum BeforeTool {
    /// It runs.
    Go,
    /// It runs with other arguments. They have to fit its schema.
    Change(Value),
    /// It does not run; why, for the model.
    Block(String),
}

/// The extensions of an agent, in the order in which they are asked.
#[derive(Clone, Default)]
pub struct Extensions(Vec<Arc<dyn Extension>>);

impl Extensions {
    /// These, in this order.
    pub fn new(extensions: Vec<Arc<dyn Extension>>) -> Self {
        Self(extensions)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the skills and prompt templates of all are.
    pub fn resources(&self) -> ResourceLoader {
        let mut all = ResourceLoader::default();
        for extension in &self.0 {
            all.extend(extension.resources());
        }
        all
    }

    /// The tools of all.
    pub fn tools(&self) -> Vec<SharedTool> {
        self.0.iter().flat_map(|extension| extension.tools()).collect()
    }

    /// The slash commands of all; of two with one name the first counts.
    pub fn commands(&self) -> Vec<CommandSpec> {
        let mut commands: Vec<CommandSpec> = Vec::new();
        for command in self.0.iter().flat_map(|extension| extension.commands()) {
            if commands.iter().all(|known| known.name != command.name) {
                commands.push(command);
            }
        }
        commands
    }

    /// Runs a slash command; none when nobody has it.
    pub async fn command(&self, name: &str, arguments: &str) -> Option<CommandOutcome> {
        let has =
            |extension: &&Arc<dyn Extension>| extension.commands().iter().any(|command| command.name == name);
        let extension = self.0.iter().find(has)?;
        Some(extension.command(name, arguments).await)
    }

    /// Asks all, each with what the one before made of it.
    pub async fn before_agent_start(&self, mut start: AgentStart) -> AgentStart {
        for extension in &self.0 {
            start = extension.before_agent_start(start).await;
        }
        start
    }

    /// The system prompt of this turn, as all want it.
    pub async fn turn_start(&self, turn: u32, system: String) -> String {
        let mut turn = TurnStart { turn, system };
        for extension in &self.0 {
            if let Some(system) = extension.turn_start(&turn).await {
                turn.system = system;
            }
        }
        turn.system
    }

    /// Tells all; their messages for the conversation.
    pub async fn turn_end(&self, turn: &TurnEnd) -> Vec<String> {
        let mut messages = Vec::new();
        for extension in &self.0 {
            messages.extend(extension.turn_end(turn).await);
        }
        messages
    }

    /// Asks all whether a tool may run; the call as all want it, or why it must not run, by the first who says so.
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

    /// The result of a tool as all want it.
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
