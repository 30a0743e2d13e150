//! The message queue of a session (decisions 28 to 30).

use pilothouse_api::messages::{ClearedQueue, EnqueuedMessage, QueueView};
use pilothouse_domain::{AgentSessionId, MessageId};

use super::inputs::{EditMessage, EmptyBody, EnqueueMessage};
use super::sessions::session_path;
use super::{ApiError, Client};

const QUEUE: &str = "/messages/queue";

impl Client {
    /// Adds a message to the queue.
    pub async fn enqueue(
        &self,
        id: AgentSessionId,
        message: &EnqueueMessage,
    ) -> Result<EnqueuedMessage, ApiError> {
        self.post(session_path(id, QUEUE), message).await
    }

    /// Lists the pending messages in delivery order.
    pub async fn queue(&self, id: AgentSessionId) -> Result<QueueView, ApiError> {
        self.get(session_path(id, QUEUE)).await
    }

    /// Changes the text or the position of a pending message.
    pub async fn edit_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
        change: &EditMessage,
    ) -> Result<QueueView, ApiError> {
        self.patch(session_path(id, &format!("{QUEUE}/{message}")), change).await
    }

    /// Cancels a pending message.
    pub async fn cancel_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<QueueView, ApiError> {
        self.delete(session_path(id, &format!("{QUEUE}/{message}"))).await
    }

    /// Cancels all pending messages.
    pub async fn clear_queue(&self, id: AgentSessionId) -> Result<ClearedQueue, ApiError> {
        self.delete(session_path(id, QUEUE)).await
    }

    /// Makes a queued message immediate.
    pub async fn promote_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<QueueView, ApiError> {
        self.patch(session_path(id, &format!("{QUEUE}/{message}/promote")), &EmptyBody {}).await
    }

    /// Releases a held message, or one of uncertain delivery (decisions 29, 30).
    pub async fn release_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<QueueView, ApiError> {
        self.post(session_path(id, &format!("{QUEUE}/{message}/release")), &EmptyBody {}).await
    }
}
