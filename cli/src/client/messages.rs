//! The message queue of a session (rulings 28 to 30).

use pilothouse_domain::{AgentSessionId, MessageId};
use pilothouse_functions::api::messages::{ClearedQueue, EnqueuedMessage, QueueView};

use super::inputs::{MessageChange, NewMessage, Nothing};
use super::sessions::of;
use super::{ApiError, Client};

const QUEUE: &str = "/messages/queue";

impl Client {
    /// Puts a message in the queue.
    pub async fn enqueue(
        &self,
        id: AgentSessionId,
        message: &NewMessage,
    ) -> Result<EnqueuedMessage, ApiError> {
        self.post(of(id, QUEUE), message).await
    }

    /// What waits, in delivery order.
    pub async fn queue(&self, id: AgentSessionId) -> Result<QueueView, ApiError> {
        self.get(of(id, QUEUE)).await
    }

    /// Changes the text or the place of a message that waits.
    pub async fn change_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
        change: &MessageChange,
    ) -> Result<QueueView, ApiError> {
        self.patch(of(id, &format!("{QUEUE}/{message}")), change).await
    }

    /// Cancels a message that waits.
    pub async fn cancel_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<QueueView, ApiError> {
        self.delete(of(id, &format!("{QUEUE}/{message}"))).await
    }

    /// Cancels everything that waits.
    pub async fn clear_queue(&self, id: AgentSessionId) -> Result<ClearedQueue, ApiError> {
        self.delete(of(id, QUEUE)).await
    }

    /// Makes a queued message immediate.
    pub async fn promote(&self, id: AgentSessionId, message: MessageId) -> Result<QueueView, ApiError> {
        self.patch(of(id, &format!("{QUEUE}/{message}/promote")), &Nothing {}).await
    }

    /// Releases a held message, or one of uncertain delivery (rulings 29, 30).
    pub async fn release(&self, id: AgentSessionId, message: MessageId) -> Result<QueueView, ApiError> {
        self.post(of(id, &format!("{QUEUE}/{message}/release")), &Nothing {}).await
    }
}
