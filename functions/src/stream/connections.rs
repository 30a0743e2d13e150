//! The port to the connections of the live stream: what API Gateway's management API does.

use async_trait::async_trait;
use pilothouse_store::ConnectionId;

/// The largest message in bytes (API Gateway: 128 KB).
pub const MAX_MESSAGE_BYTES: usize = 128 * 1024;

/// Why nothing was posted.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    /// There is no such connection any more.
    #[error("the connection is gone")]
    Gone,
    /// It did not work this time.
    #[error("the connection cannot be reached")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The connections that are open. Clients see what is posted to a connection in the order in which it was posted.
#[async_trait]
pub trait Connections: Send + Sync + 'static {
    /// Posts a text message of at most [`MAX_MESSAGE_BYTES`].
    async fn post(&self, connection: &ConnectionId, text: &str) -> Result<(), PostError>;

    /// Closes the connection. Its client may open another and go on with its cursor.
    async fn close(&self, connection: &ConnectionId) -> Result<(), PostError>;
}
