//! The port to language models, and the registry of those that there are.

mod builtin;
pub mod genai;
pub mod price;
pub mod registry;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pilothouse_domain::value::ThinkingLevel;
use serde_json::Value;

use crate::message::{AssistantMessage, SharedMessages, Usage};

/// Answers requests. One that is dropped, or whose stream is dropped, is cut off.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// Sends a request; the stream ends with [`Delta::Done`] or an error.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// An answer as it comes.
pub type ModelStream = BoxStream<'static, Result<Delta, ModelError>>;

/// What a model is asked. To clone it costs little, however long the conversation is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The provider's name in the registry.
    pub provider: String,
    /// The model's id at its provider.
    pub model: String,
    /// The system prompt.
    pub system: String,
    /// The conversation, calls and results paired.
    pub messages: SharedMessages,
    /// The tools that it may call.
    pub tools: Arc<[ToolSpec]>,
    /// How deeply it thinks.
    pub thinking: ThinkingLevel,
    /// The most tokens that it may write.
    pub max_output_tokens: u64,
}

/// A tool as a model gets to see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of its thoughts.
    Thinking(String),
    /// The provider took the request and begins to answer.
    Begun,
    /// A tool call is being written.
    ToolCall {
        /// Its id, as far as it is known.
        id: String,
        /// Its name, once it is known.
        name: String,
        /// Bytes of its arguments so far.
        bytes: u64,
    },
    /// What it took so far, where the provider tells before the end: it is paid for even when the answer breaks off.
    Usage(Usage),
    /// The whole answer. Nothing comes after it.
    Done(AssistantMessage),
}

/// Why a model did not answer, by what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// 429, 5xx, 529, a broken stream or no connection: worth another try (S1 6.2).
    #[error("{message}")]
    Transient {
        /// A sentence for a person, without secrets.
        message: String,
        /// The status, when there was one.
        status: Option<u16>,
        /// How long the provider asked to wait.
        retry_after: Option<Duration>,
    },
    /// The conversation does not fit into the context window (S1 6.1).
    #[error("the conversation does not fit into the context window: {message}")]
    ContextOverflow {
        /// The provider's own words.
        message: String,
    },
    /// The plan that pays for it is used up, perhaps until a time (S4).
    #[error("the quota is used up: {message}")]
    QuotaExceeded {
        /// The provider's own words.
        message: String,
        /// When it can go on, where the provider said.
        reset_at: Option<pilothouse_domain::Timestamp>,
    },
    /// Anything else: a wrong key, an unknown model, a request that is not understood.
    #[error("{message}")]
    Rejected {
        /// A sentence for a person, without secrets.
        message: String,
        /// The status, when there was one.
        status: Option<u16>,
    },
}
