//! What is asked, whatever the protocol.

/// A request that passed its provider's checks.
#[allow(
    clippy::struct_excessive_bools,
    reason = "the protocols have that many switches, and none excludes another"
)]
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prompt {
    /// The model.
    pub(crate) model: String,
    /// Whether the answer is to be streamed.
    pub(crate) stream: bool,
    /// The system prompt.
    pub(crate) system: String,
    /// The conversation, in order.
    pub(crate) turns: Vec<Turn>,
    /// The names of the tools that it offers.
    pub(crate) tools: Vec<String>,
    /// The most tokens that may be written.
    pub(crate) max_output: Option<u64>,
    /// Whether it asks for a cache (Anthropic; OpenAI always caches).
    pub(crate) caches: bool,
    /// Whether the model shall think.
    pub(crate) thinks: bool,
    /// Whether the end of a stream tells what it took.
    pub(crate) wants_usage: bool,
    /// Whether the answer must be JSON of a given form.
    pub(crate) structured: bool,
    /// Bytes of the request's body.
    pub(crate) bytes: usize,
}

/// A part of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A user's text.
    User(String),
    /// An answer of the model.
    Assistant,
    /// What came of a call.
    Result {
        /// The call.
        id: String,
        /// Its text.
        text: String,
    },
}

impl Prompt {
    /// Everything that users said, the latest first, with its place among the turns.
    pub(crate) fn user_texts(&self) -> impl Iterator<Item = (usize, &str)> {
        self.turns.iter().enumerate().rev().filter_map(|(index, turn)| match turn {
            Turn::User(text) => Some((index, text.as_str())),
            _ => None,
        })
    }

    /// What is new since the model's last answer.
    pub(crate) fn news(&self) -> impl Iterator<Item = &str> {
        let since = self.turns.iter().rposition(|turn| *turn == Turn::Assistant).map_or(0, |index| index + 1);
        self.turns[since..].iter().filter_map(|turn| match turn {
            Turn::User(text) | Turn::Result { text, .. } => Some(text.as_str()),
            Turn::Assistant => None,
        })
    }

    /// How often the model answered since a turn.
    pub(crate) fn answers_since(&self, index: usize) -> usize {
        self.turns[index.min(self.turns.len())..].iter().filter(|turn| **turn == Turn::Assistant).count()
    }

    /// The results of tools, the latest first.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&str, &str)> {
        self.turns.iter().rev().filter_map(|turn| match turn {
            Turn::Result { id, text } => Some((id.as_str(), text.as_str())),
            _ => None,
        })
    }
}

/// Why a request is refused, before any script is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    /// The status.
    pub(crate) status: u16,
    /// The provider's sentence.
    pub(crate) message: String,
    /// What is at fault, where the provider says so.
    pub(crate) param: Option<String>,
}

impl Refused {
    /// A request that breaks the protocol.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), param: None }
    }

    /// Names the parameter.
    pub(crate) fn at(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// A request without a (right) key.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self { status: 401, message: message.into(), param: None }
    }
}
