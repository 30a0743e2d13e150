//! The port to language models, and the registry of models.

pub mod genai;
pub mod info;
pub use pilothouse_model_table as price;
pub mod registry;
mod table;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use pilothouse_domain::value::ThinkingLevel;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{AssistantMessage, SharedMessages, Usage};

/// Answers requests. Dropping the future or the stream cancels the request.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// The stream ends with [`Delta::Done`] or an error.
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError>;
}

/// A streamed reply.
pub type ModelStream = BoxStream<'static, Result<Delta, ModelError>>;

/// Cheap to clone, however long the conversation is.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Id of the conversation. Providers cache prompts by it.
    pub conversation: String,
    pub provider: String,
    pub model: String,
    pub system: String,
    /// The conversation, with every call paired with its result.
    pub messages: SharedMessages,
    pub tools: Arc<[ToolSpec]>,
    pub thinking: ThinkingLevel,
    pub max_output_tokens: u64,
}

/// A tool as the model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    /// Description for the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
}

/// A piece of a streamed reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Delta {
    Text(String),
    Thinking(String),
    /// The provider accepted the request and begins to answer.
    Begun,
    /// Progress of a tool call that is being written.
    ToolCall {
        /// The call's id, if it is known already.
        id: String,
        /// Empty until it is known.
        name: String,
        /// Bytes of the arguments so far.
        bytes: u64,
    },
    /// Usage so far, if the provider reports it before the end. It is charged even if the reply breaks off.
    Usage(Usage),
    /// The complete reply. Always the last item.
    Done(AssistantMessage),
}

/// Content that can be left out of a conversation when a provider does not accept it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OmittedContent {
    Images,
    Thoughts,
}

/// Why a model did not answer, classified by how to react.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// 429, 5xx, 529, a broken stream or no connection: retryable (S1 6.2).
    #[error("{message}")]
    Transient {
        /// A sentence for people, without secrets.
        message: String,
        /// HTTP status, if there was one.
        status: Option<u16>,
        retry_after: Option<Duration>,
    },
    /// The conversation does not fit into the context window (S1 6.1).
    #[error("the conversation does not fit into the context window: {message}")]
    ContextOverflow {
        /// The message of the provider.
        message: String,
    },
    /// The quota of the account is exceeded, possibly until a certain time (S4).
    #[error("the quota is used up: {message}")]
    QuotaExceeded {
        message: String,
        /// When the quota resets, if the provider reported it.
        reset_at: Option<pilothouse_domain::Timestamp>,
    },
    /// The provider does not accept a part of the conversation, and would reject it again.
    #[error("{message}")]
    RejectedContent {
        /// A sentence for people, without secrets.
        message: String,
        content: OmittedContent,
    },
    /// Any other error: a wrong key, an unknown model, an invalid request.
    #[error("{message}")]
    Rejected {
        /// A sentence for people, without secrets.
        message: String,
        /// HTTP status, if there was one.
        status: Option<u16>,
    },
}
