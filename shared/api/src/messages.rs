//! The message queue of a session in the API.

use pilothouse_domain::MessageId;
use pilothouse_domain::queue::{SessionMessage, SessionMessageQueue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The open messages of a session in delivery order (S0 8.7 `GetSessionMessageQueueQuery`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// The messages in delivery order; immediate ones come first.
    pub items: Vec<SessionMessage>,
    /// Whether delivery is on hold until the owner sends, promotes or releases a message.
    pub held: bool,
    /// Knowledge of the agent's project that waits for its current or next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_injection: Option<SessionMessage>,
    /// The control version of the session.
    pub version: u64,
}

impl QueueView {
    /// The view of a queue.
    pub fn of(queue: &SessionMessageQueue, version: u64) -> Self {
        let context_injection = queue.pending_injection().cloned();
        Self { items: queue.messages().to_vec(), held: queue.is_held(), context_injection, version }
    }
}

/// The response to enqueueing a message.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnqueuedMessage {
    /// The message after the request.
    pub message: SessionMessage,
}

/// The response to clearing the queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearedQueue {
    /// The messages that were cancelled. Messages that were already dispatched are not among them.
    pub cancelled: Vec<MessageId>,
}
