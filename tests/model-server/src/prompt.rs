//! A request independent of the protocol.

/// A request that passed its provider's checks.
#[allow(
    clippy::struct_excessive_bools,
    reason = "the protocols have that many switches, and none excludes another"
)]
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prompt {
    pub(crate) model: String,
    /// Whether to stream the reply.
    pub(crate) stream: bool,
    pub(crate) system: String,
    pub(crate) turns: Vec<Turn>,
    /// Names of the offered tools.
    pub(crate) tools: Vec<String>,
    /// Output limit in tokens.
    pub(crate) max_output: Option<u64>,
    /// Whether the request enables caching (Anthropic; OpenAI always caches).
    pub(crate) caches: bool,
    pub(crate) thinks: bool,
    /// Whether the end of a stream should report the usage.
    pub(crate) wants_usage: bool,
    /// Whether the reply must be JSON with a given schema.
    pub(crate) structured: bool,
    /// Size of the request's body in bytes.
    pub(crate) bytes: usize,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    User(String),
    Assistant,
    Result {
        /// The id of the call.
        id: String,
        text: String,
    },
}

impl Prompt {
    /// Latest first, with their index among the turns.
    pub(crate) fn user_texts(&self) -> impl Iterator<Item = (usize, &str)> {
        self.turns.iter().enumerate().rev().filter_map(|(index, turn)| match turn {
            Turn::User(text) => Some((index, text.as_str())),
            _ => None,
        })
    }

    /// Texts since the model's last reply.
    pub(crate) fn recent_text(&self) -> impl Iterator<Item = &str> {
        let since = self.turns.iter().rposition(|turn| *turn == Turn::Assistant).map_or(0, |index| index + 1);
        self.turns[since..].iter().filter_map(|turn| match turn {
            Turn::User(text) | Turn::Result { text, .. } => Some(text.as_str()),
            Turn::Assistant => None,
        })
    }

    /// Number of the model's replies since a turn.
    pub(crate) fn replies_since(&self, index: usize) -> usize {
        self.turns[index.min(self.turns.len())..].iter().filter(|turn| **turn == Turn::Assistant).count()
    }

    pub(crate) fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        self.turns.iter().rev().filter_map(|turn| match turn {
            Turn::Result { id, text } => Some((id.as_str(), text.as_str())),
            _ => None,
        })
    }
}

/// Why a request is rejected before the script is consulted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvalidRequest {
    pub(crate) status: u16,
    /// The provider's message.
    pub(crate) message: String,
    /// The invalid parameter, if the provider names it.
    pub(crate) param: Option<String>,
}

impl InvalidRequest {
    /// A request that violates the protocol.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), param: None }
    }

    pub(crate) fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// A request with a missing or wrong key.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self { status: 401, message: message.into(), param: None }
    }
}
