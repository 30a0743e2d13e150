//! The protocol's messages, one JSON object per line.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::UserContent;
use crate::tool::is_tool_name;

pub const PROTOCOL: u32 = 1;

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToProgram<'a> {
    Hello {
        protocol: u32,
        cwd: &'a Path,
    },
    Request {
        id: u64,
        #[serde(flatten)]
        request: Request<'a>,
    },
    /// The agent does not wait for the answer to this request any more.
    Cancel {
        id: u64,
    },
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "hook", rename_all = "snake_case")]
pub(super) enum Request<'a> {
    BeforeAgentStart {
        prompt: &'a str,
        system: &'a str,
    },
    TurnStart {
        turn: u32,
        system: &'a str,
    },
    TurnEnd {
        turn: u32,
        text: &'a str,
        tools: &'a [String],
    },
    BeforeTool {
        tool_call_id: &'a str,
        tool: &'a str,
        arguments: &'a Value,
    },
    AfterTool {
        tool_call_id: &'a str,
        tool: &'a str,
        arguments: &'a Value,
        content: &'a [UserContent],
        is_error: bool,
    },
    Tool {
        tool_call_id: &'a str,
        tool: &'a str,
        arguments: &'a Value,
    },
    Command {
        name: &'a str,
        arguments: &'a str,
    },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromProgram {
    Hello(Hello),
    /// The answer to a request: its content, or why there is none.
    Answer {
        id: u64,
        error: Option<String>,
        #[serde(flatten)]
        answer: Value,
    },
    Progress {
        id: u64,
        text: String,
    },
    /// A sentence for people.
    Notice {
        text: String,
    },
}

/// The capabilities of a program.
#[derive(Debug, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    #[serde(default)]
    pub(super) subscribe: Vec<HookName>,
    #[serde(default)]
    pub(super) tools: Vec<ToolSpecLine>,
    #[serde(default)]
    pub(super) commands: Vec<CommandLine>,
    #[serde(default)]
    pub(super) skills: Vec<PathBuf>,
    #[serde(default)]
    pub(super) prompts: Vec<PathBuf>,
}

/// Hooks that a program can subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum HookName {
    BeforeAgentStart,
    TurnStart,
    TurnEnd,
    BeforeTool,
    AfterTool,
}

impl HookName {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::BeforeAgentStart => "before_agent_start",
            Self::TurnStart => "turn_start",
            Self::TurnEnd => "turn_end",
            Self::BeforeTool => "before_tool",
            Self::AfterTool => "after_tool",
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolSpecLine {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) input_schema: Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommandLine {
    pub(super) name: String,
    #[serde(default)]
    pub(super) description: String,
}

impl Hello {
    /// Removes tools that models would reject and commands that nobody can type. Returns a sentence for each.
    pub(super) fn leave_out_unusable(&mut self) -> Vec<String> {
        let mut unusable = Vec::new();
        self.tools.retain(|tool| {
            let schema = &tool.input_schema;
            let why = if !is_tool_name(&tool.name) {
                "a name has 1 to 64 letters, digits, `_` and `-`"
            } else if !schema.is_object() || !jsonschema::meta::is_valid(schema) {
                "its input_schema is not a valid JSON Schema"
            } else {
                return true;
            };
            unusable.push(format!("the tool `{}` is skipped: {why}", tool.name));
            false
        });
        self.commands.retain(|command| {
            let usable =
                !command.name.is_empty() && !command.name.contains(|c: char| c.is_whitespace() || c == '/');
            if !usable {
                unusable.push(format!("the command `{}` is skipped: its name cannot be typed", command.name));
            }
            usable
        });
        unusable
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct BeforeStartResponse {
    pub(super) prompt: Option<String>,
    pub(super) system: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TurnStartResponse {
    pub(super) system: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TurnEndResponse {
    pub(super) message: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct BeforeToolResponse {
    pub(super) block: Option<String>,
    pub(super) arguments: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct AfterToolResponse {
    pub(super) content: Option<Content>,
    pub(super) is_error: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ToolResponse {
    pub(super) content: Content,
    #[serde(default)]
    pub(super) is_error: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommandResponse {
    pub(super) prompt: Option<String>,
    pub(super) text: Option<String>,
}

/// The result of a tool: a text or blocks.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Blocks(Vec<UserContent>),
}

impl From<Content> for Vec<UserContent> {
    fn from(content: Content) -> Self {
        match content {
            Content::Text(text) => vec![UserContent::Text { text }],
            Content::Blocks(blocks) => blocks,
        }
    }
}
