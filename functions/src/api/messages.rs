//! The message queue over the API.

use pilothouse_domain::MessageId;
use pilothouse_domain::queue::{SessionMessage, SessionMessageQueue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The open messages of a session in delivery order (S0 8.7 `GetSessionMessageQueueQuery`).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueView {
    /// The messages: immediate ones first.
    pub items: Vec<SessionMessage>,
    /// Whether they are held until the owner sends, promotes or releases one.
    pub held: bool,
    /// The control version of the session.
    pub version: u64,
}

impl QueueView {
    /// The view of a queue.
    pub fn of(queue: &SessionMessageQueue, version: u64) -> Self {
        Self { items: queue.messages().to_vec(), held: queue.is_held(), version }
    }
}

/// What enqueueing answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnqueuedMessage {
    /// The message as it stands.
    pub message: SessionMessage,
}

/// What clearing answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClearedQueue {
    /// Messages that were cancelled. Those already sent are not among them.
    pub cancelled: Vec<MessageId>,
}
