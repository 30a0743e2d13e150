//! The script of a model server. Its JSON form uses the same names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// The replies of a server to all clients.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Script {
    /// The conversations, in order of precedence.
    pub conversations: Vec<Conversation>,
    /// The reply if no conversation has a step for a request. Default: a 400 with an explanation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otherwise: Option<Step>,
    /// In tokens. Larger requests overflow with the provider's error. A request has one token per four bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// The models to list.
    pub models: Vec<String>,
    /// Values of `{{var:NAME}}`.
    pub vars: BTreeMap<String, String>,
    /// The vectors of texts.
    pub embeddings: Embeddings,
    /// The key that requests must have. Default: any key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// What the server knows of the vectors of texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Embeddings {
    /// In order of precedence. A text without a vector is refused.
    pub vectors: Vec<TextVector>,
    /// The failure of every request. Those within a stream are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<Failure>,
}

impl Embeddings {
    /// The vectors of the texts that contain these words.
    pub fn of<'a>(vectors: impl IntoIterator<Item = (&'a str, Vec<f64>)>) -> Self {
        let vectors = vectors.into_iter().map(|(when, values)| TextVector { when: when.to_owned(), values });
        Self { vectors: vectors.collect(), fail: None }
    }
}

/// The vector of texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TextVector {
    /// What such a text contains.
    pub when: String,
    pub values: Vec<f64>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("failed to parse the script")]
    Format(#[from] serde_json::Error),
    /// Two conversations with the same name apply to the same requests.
    #[error("two conversations named {0:?} apply to the same requests")]
    Twice(String),
}

impl Script {
    pub fn parse(json: &str) -> Result<Self, ScriptError> {
        Self::checked(serde_json::from_str(json)?)
    }

    /// Parses a value, for scripts that tests write with `json!`.
    pub fn from_value(value: Value) -> Result<Self, ScriptError> {
        Self::checked(serde_json::from_value(value)?)
    }

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

/// One conversation: a sequence of steps.
///
/// Selected by the last marker `[[script:NAME]]` in a user's text, or without a marker, if it is the first conversation
/// whose conditions all hold. `[[script:NAME#anything]]` counts its steps separately for each key, for sessions that
/// play the same conversation concurrently.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Conversation {
    /// Name for markers.
    pub name: String,
    /// A text that some user text must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// A tool that the request must offer, which distinguishes agents with the same task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offers: Option<String>,
    /// Restricts the conversation to requests to this model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How the next step is selected.
    pub progress: Progress,
    pub steps: Vec<Step>,
}

/// How the next step of a conversation is selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Progress {
    /// Each step once, in order, for any request.
    #[default]
    Order,
    /// By the request's history: the number of the model's replies since the conversation began is the number of
    /// completed steps. A client that repeats a request after a kill gets the same reply, and any number of sessions
    /// can play concurrently. Not for conversations that are compacted, because that removes replies.
    History,
}

/// One reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Step {
    /// Only if the text since the last reply (a user text or a tool result) contains this. Such a step is played out
    /// of order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// For steps with `when`, and for the last one: whether the step can be played repeatedly.
    pub repeat: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The provider's signature of the thought. Default: a generated one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub tools: Vec<Tool>,
    /// Default: plausible values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Tokens>,
    /// Default: according to the content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop: Option<Stop>,
    /// The gate that must be open before the reply begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// The gate that must be open before the reply continues after its first piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_inside: Option<String>,
    /// Milliseconds before the reply begins. For benches and manual trials; tests use gates.
    pub delay_ms: u64,
    /// Milliseconds between two pieces.
    pub pace_ms: u64,
    /// Characters in a piece. Default: 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<usize>,
    /// Failures to play before the reply, each once.
    pub fail: Vec<Failure>,
}

impl Step {
    /// A reply with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// A reply with a tool call.
    pub fn tool(name: impl Into<String>, input: Value) -> Self {
        Self::default().and_tool(name, input)
    }

    /// Adds a tool call.
    #[must_use]
    pub fn and_tool(mut self, name: impl Into<String>, input: Value) -> Self {
        self.tools.push(Tool { name: name.into(), input, ..Tool::default() });
        self
    }

    /// Adds a text followed by a tool call.
    #[must_use]
    pub fn and_says_before(mut self, says: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.tools.push(Tool { name: name.into(), input, says: Some(says.into()), ..Tool::default() });
        self
    }

    /// Adds a thought.
    #[must_use]
    pub fn thinking(mut self, thinking: impl Into<String>) -> Self {
        self.thinking = Some(thinking.into());
        self
    }

    /// Adds failures before the reply.
    #[must_use]
    pub fn failing(mut self, failures: impl IntoIterator<Item = Failure>) -> Self {
        self.fail.extend(failures);
        self
    }

    /// Adds a gate before the reply.
    #[must_use]
    pub fn waiting(mut self, gate: impl Into<String>) -> Self {
        self.wait = Some(gate.into());
        self
    }

    #[must_use]
    pub fn waiting_inside(mut self, gate: impl Into<String>) -> Self {
        self.wait_inside = Some(gate.into());
        self
    }

    #[must_use]
    pub fn taking(mut self, usage: Tokens) -> Self {
        self.usage = Some(usage);
        self
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tool {
    pub name: String,
    /// Strings may contain placeholders:
    /// - `{{result}}`: the last result of a tool
    /// - `{{result:ID}}`: the result of the call with this `id` in the script
    /// - `{{result~REGEX}}`: the first group of a regular expression's match in the last result
    /// - `{{prompt}}`: the user's last text
    /// - `{{var:NAME}}`: a variable
    pub input: Value,
    /// The arguments as they are sent, valid or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw_input: Option<String>,
    /// Text after everything before this call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// For `{{result:ID}}`. Becomes part of the call's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Tokens of a reply. The parts do not overlap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tokens {
    /// Input tokens, not read from a cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
}

/// Why a reply stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// The reply is complete.
    End,
    ToolUse,
    /// The output limit was reached.
    Length,
    /// The model refuses to answer.
    Refusal,
    /// The provider's filter cut off the reply (OpenAI; a refusal for other providers).
    ContentFilter,
}
