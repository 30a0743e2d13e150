//! What a model says, and when: the script, which is JSON with the same names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// What a server says to everybody who asks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Script {
    /// The conversations, in the order in which they are looked at.
    pub conversations: Vec<Conversation>,
    /// The answer where no conversation has a step (left). Without it such a request gets a 400 that says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Step>,
    /// Tokens of a context window: larger requests overflow, in the words of the provider. Estimated as four bytes a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The models that are listed.
    pub models: Vec<String>,
    /// What `{{var:NAME}}` stands for.
    pub vars: BTreeMap<String, String>,
    /// The key that requests must carry. Without it any does, but there must be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Why a script cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is not what a script looks like.
    #[error("the script cannot be read")]
    Format(#[from] serde_json::Error),
    /// Two conversations have one name and are for the same requests.
    #[error("two conversations are named {0:?}, and nothing tells them apart")]
    Twice(String),
}

impl Script {
    /// Reads a script.
    pub fn parse(json: &str) -> Result<Self, ScriptError> {
        Self::checked(serde_json::from_str(json)?)
    }

    /// Takes a script from a value that a test put together with `json!`.
    pub fn from_value(value: Value) -> Result<Self, ScriptError> {
        Self::checked(serde_json::from_value(value)?)
    }

    /// A script of one conversation.
    pub fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        let conversation = Conversation { steps: steps.into_iter().collect(), ..Conversation::default() };
        Self { conversations: vec![conversation], ..Self::default() }
    }

    fn checked(script: Self) -> Result<Self, ScriptError> {
        for (index, conversation) in script.conversations.iter().enumerate() {
            let twice = |other: &Conversation| {
                (&other.name, &other.offers, &other.model)
                    == (&conversation.name, &conversation.offers, &conversation.model)
            };
            if !conversation.name.is_empty() && script.conversations[..index].iter().any(twice) {
                return Err(ScriptError::Twice(conversation.name.clone()));
            }
        }
        Ok(script)
    }
}

/// One conversation: steps that come one after the other.
///
/// The last marker `[[script:NAME]]` in a user's text chooses it; else the first one in the script whose conditions all hold.
/// `[[script:NAME#anything]]` counts its steps apart from other keys, for sessions that play the same conversation at a time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Conversation {
    /// Its name, for markers.
    pub name: String,
    /// A text that some user's text of the conversation must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A tool that the request must offer: the same task in the words of another agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offers: Option<String>,
    /// Only for requests to this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How its next step is found.
    pub progress: Progress,
    /// What the model says.
    pub steps: Vec<Step>,
}

/// How the next step of a conversation is found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// Each step once, in their order, whoever asks.
    #[default]
    Order,
    /// By the request: as many steps are over as the model has answered since the conversation began. A client that was killed
    /// and asks again hears the same again, and any number of sessions play it at a time.
    /// It is not for conversations that are compacted: that takes answers away.
    History,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Step {
    /// Only when what is new since the last answer (a user's text, a result of a tool) has this text. Such a step comes out of turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether it comes again and again; it is for steps with `when`, and for the last one.
    pub repeat: bool,
    /// What it thinks, before it speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The provider's signature of the thought; made up without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The tools that it calls.
    pub tools: Vec<Tool>,
    /// What it took; plausible figures without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// Why it stops; as its content says without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The gate that must be open before the answer begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The gate that must be open before the answer goes on after its first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_inside: Option<String>,
    /// Milliseconds before the answer begins. Tests wait with gates; this is for benches and trials.
    pub delay_ms: u64,
    /// Milliseconds between two pieces.
    pub pace_ms: u64,
    /// Characters in a piece; 16 without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// What goes wrong first: each failure once, then the answer.
    pub fail: Vec<Failure>,
}

impl Step {
    /// Says something.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Calls a tool.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Calls one more tool.
    #[must_use]
    pub fn and_tool(mut self, name: impl Into<String>, input: Value) -> Self {
        self.tools.push(Tool { name: name.into(), input, ..Tool::default() });
        self
    }

    /// Says something, and calls one more tool.
    #[must_use]
    pub fn and_says_before(mut self, says: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.tools.push(Tool { name: name.into(), input, says: Some(says.into()), ..Tool::default() });
        self
    }

    /// Thinks first.
    #[must_use]
    pub fn thinking(mut self, thinking: impl Into<String>) -> Self {
        self.thinking = Some(thinking.into());
        self
    }

    /// Fails first.
    #[must_use]
    pub fn failing(mut self, failures: impl IntoIterator<Item = Failure>) -> Self {
        self.fail.extend(failures);
        self
    }

    /// Waits for a gate before it answers.
    #[must_use]
    pub fn waiting(mut self, gate: impl Into<String>) -> Self {
        self.wait = Some(gate.into());
        self
    }

    /// Waits for a gate after its first piece.
    #[must_use]
    pub fn waiting_inside(mut self, gate: impl Into<String>) -> Self {
        self.wait_inside = Some(gate.into());
        self
    }

    /// Takes this many tokens.
    #[must_use]
    pub fn taking(mut self, usage: Tokens) -> Self {
        self.usage = Some(usage);
        self
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tool {
    /// The tool.
    pub name: String,
    /// Its arguments; texts in it may have placeholders:
    /// `{{result}}` the last result of a tool, `{{result:ID}}` the one of the call that the script named so,
    /// `{{result~REGEX}}` what the first group of a regular expression found in it, `{{prompt}}` the user's last text,
    /// `{{var:NAME}}` a variable.
    pub input: Value,
    /// Its arguments as they are sent, however broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<String>,
    /// What is said after what came before, and before this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// A name for the call, for `{{result:ID}}`. It becomes part of the call's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// What an answer took. The parts do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tokens {
    /// Read, and not from a cache.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

/// Why an answer stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// Everything was said.
    End,
    /// Tools are called.
    ToolUse,
    /// At the limit of the output.
    Length,
    /// It will not answer.
    Refusal,
    /// The provider's filter cut it off (OpenAI; a refusal elsewhere).
    ContentFilter,
}
