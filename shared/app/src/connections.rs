//! The port to live stream connections, modelled on API Gateway's management API.

use async_trait::async_trait;
use pilothouse_store::ConnectionId;

/// The maximum size of a message in bytes (API Gateway: 128 KB).
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("the connection is gone")]
    Gone,
    /// The request failed; a retry may succeed.
    #[error("failed to reach the connection")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The open connections. A client receives the messages of a connection in the order in which they were posted.
#[async_trait]
pub trait Connections: Send + Sync + 'static {
    /// Posts a text message of at most [`MAX_MESSAGE_BYTES`].
    async fn post(&self, connection: &ConnectionId, text: &str) -> Result<(), PostError>;

    /// Closes the connection. Its client may reconnect and resume from its cursor.
    async fn close(&self, connection: &ConnectionId) -> Result<(), PostError>;
}
