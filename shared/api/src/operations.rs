//! Dead letters in the API (decision 9).

use pilothouse_domain::{Timestamp, UserId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The dead letters of the deployment, and their latest redrives.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLettersView {
    /// The queues that have dead letters.
    pub queues: Vec<DeadQueueView>,
    /// The latest redrives, newest first.
    pub redrives: Vec<RedriveView>,
}

/// The dead letters of a queue.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadQueueView {
    /// The name of the queue.
    pub queue: String,
    /// The number of dead letters.
    pub count: u64,
    /// Some of the dead letters, in the order in which a redrive sends them.
    pub letters: Vec<DeadLetterView>,
}

/// A dead letter.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// The id of the dead letter.
    pub id: String,
    /// The message group, such as the session.
    pub group: String,
    /// The error that the message failed with.
    pub cause: String,
    /// How often the message was received before it became a dead letter.
    pub receive_count: u32,
    /// The size of the body in bytes.
    pub bytes: u64,
    /// The beginning of the body.
    pub head: String,
}

/// A redrive: dead letters that were sent to their queue again, and its cost.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveView {
    /// The id of the redrive.
    pub id: String,
    /// When the redrive ended.
    pub at: Timestamp,
    /// The caller who requested the redrive.
    pub by: UserId,
    /// The name of the queue.
    pub queue: String,
    /// The number of dead letters that were sent again.
    pub letters: u64,
    /// The total size of their bodies in bytes.
    pub bytes: u64,
    /// The number of requests to the broker, as SQS bills them.
    pub requests: u64,
}

/// The response to a redrive.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedriveResponse {
    /// The redrive.
    pub redrive: RedriveView,
    /// The number of dead letters that remain in the queue. Repeat the request to redrive them, too. Messages that fail again
    /// return to the queue.
    pub left: u64,
}
