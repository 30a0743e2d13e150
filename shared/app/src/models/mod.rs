//! The models of the control plane: one reviews coherence issues (decision 91), and one embeds texts (decision 88). The server is
//! configured with an endpoint for each.
//!
//! | module | contents |
//! |---|---|
//! | `settings` | the endpoint, from the environment |
//! | `client` | requests to the protocols of `OpenAI` and Anthropic, and their answers |
//! | `embeddings` | embeddings of texts, and their endpoint |

mod client;
mod embeddings;
mod settings;

use async_trait::async_trait;

pub use client::{Answer, ModelClient, ModelError, Prompt, TokenUse};
pub use embeddings::{Embedded, EmbeddingClient, EmbeddingSettings};
pub use settings::{InvalidModelSettings, ModelKey, ModelPrice, ModelProtocol, ModelSettings};

/// An HTTP request to the endpoint of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelRequest {
    pub url: String,
    /// Names in lower case. Values may be secret.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: String,
}

/// The response of an endpoint, with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelResponse {
    pub status: u16,
    pub body: String,
}

/// The endpoint sent no complete response in time. The text is for logs.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NoResponse(pub String);

/// Sends requests to the endpoint of a model: one POST each, within [`REQUEST_TIMEOUT`].
#[async_trait]
pub trait ModelTransport: Send + Sync + 'static {
    async fn post(&self, request: &ModelRequest) -> Result<ModelResponse, NoResponse>;
}

/// How long a request to a model may take.
pub const REQUEST_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(45);
/// The most bytes of a response.
pub const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
