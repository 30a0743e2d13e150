//! Dead letters over the API (ruling 9).

use pilothouse_domain::{Timestamp, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Messages that nobody could deal with, and what was done about such.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersView {
    /// The queues that have dead letters.
    pub queues: Vec<DeadQueueView>,
    /// The latest redrives, the newest first.
    pub redrives: Vec<RedriveView>,
}

/// The dead letters of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadQueueView {
    /// The queue.
    pub queue: String,
    /// How many there are.
    pub count: u64,
    /// Some of them, in the order in which they would be sent again.
    pub letters: Vec<DeadLetterView>,
}

/// A dead letter.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// Names it.
    pub id: String,
    /// Its group: a session.
    pub group: String,
    /// Why it is here.
    pub cause: String,
    /// How often it was received before.
    pub receive_count: u32,
    /// Its size.
    pub bytes: u64,
    /// The beginning of it.
    pub head: String,
}

/// Dead letters that were sent again, and what that cost.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveView {
    /// Names it.
    pub id: String,
    /// When it ended.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: UserId,
    /// The queue.
    pub queue: String,
    /// Letters that were sent again.
    pub letters: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Requests to the broker, as SQS bills them.
    pub requests: u64,
}

/// What a redrive did.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveAnswer {
    /// What was done.
    pub redrive: RedriveView,
    /// Dead letters that the queue still has: ask again. It may have some again at once, if their cause is still there.
    pub left: u64,
}

impl From<pilothouse_store::Redrive> for RedriveView {
    fn from(redrive: pilothouse_store::Redrive) -> Self {
        let pilothouse_store::Redrive { id, at, by, queue, letters, bytes, requests } = redrive;
        Self { id, at, by, queue, letters, bytes, requests }
    }
}
