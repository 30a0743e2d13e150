//! The Queue port, in the shape of SQS FIFO: groups in order, deduplication, visibility, batches of 10, partial
//! failures.

use std::time::Duration;

use async_trait::async_trait;

/// The most messages of one request (SQS).
pub const MAX_BATCH: usize = 10;
/// The largest message in bytes. SQS takes 1 MiB; the envelope's own limit is lower.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// The longest delay (SQS).
pub const MAX_DELAY: Duration = Duration::from_mins(15);
/// The longest wait of a long poll (SQS).
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// How long a deduplication id is remembered (SQS).
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_mins(5);

/// The name of a queue: letters, digits, `-`, `_` and `.`, at most 80.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(String);

impl QueueName {
    /// Takes a name; nothing when it breaks the rule.
    pub fn parse(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let fits = (1..=80).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        fits.then_some(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// How a queue behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// How long a received message is hidden from others.
    pub visibility: Duration,
    /// At which receive count a message goes to the dead-letter queue instead of being received again; none:
    /// never.
    pub max_receives: Option<u32>,
}

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Messages of a group are received in order, one batch at a time.
    pub group: String,
    /// A second message with this id within five minutes is accepted and not delivered.
    pub deduplication_id: String,
    /// The message.
    pub body: String,
    /// How long it is hidden at first; at most [`MAX_DELAY`].
    pub delay: Duration,
}

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Deletes it, or changes its visibility, for as long as this receipt is the latest.
    pub receipt: Receipt,
    /// Its group.
    pub group: String,
    /// The message.
    pub body: String,
    /// How often it was received, this time included.
    pub receive_count: u32,
}

/// What proves that a message was received.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

/// How full a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that could be received now or after their group's earlier ones.
    pub visible: u64,
    /// Messages that were received and neither deleted nor visible again.
    pub in_flight: u64,
    /// Messages that wait for their delay.
    pub delayed: u64,
}

/// A message of a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its place in the dead-letter queue, rising with arrival.
    pub id: u64,
    /// Its group.
    pub group: String,
    /// The message.
    pub body: String,
    /// Why it is here.
    pub cause: String,
    /// How often it was received before.
    pub receive_count: u32,
}

/// Why the broker did not do it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// There is no such queue.
    #[error("there is no queue `{0}`")]
    NoSuchQueue(String),
    /// The request can never work: a batch over 10, a message over the limit, a delay over 15 minutes.
    #[error("not a possible request: {0}")]
    Invalid(String),
    /// The engine failed; trying again may work.
    #[error("the broker failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Which messages of a batch the broker has; the others failed and may be sent again.
#[derive(Debug, Default)]
pub struct SendOutcome {
    /// What failed, by position.
    pub failed: Vec<(usize, QueueError)>,
}

/// The port.
#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// Creates a FIFO queue, or changes the options of the one that is there.
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError>;

    /// Removes a queue with everything in it; succeeds when there is none.
    async fn remove(&self, queue: &QueueName) -> Result<(), QueueError>;

    /// The names of the queues that begin with `prefix`, sorted.
    async fn list(&self, prefix: &str) -> Result<Vec<QueueName>, QueueError>;

    /// Sends up to 10 messages, in order. What is not listed as failed is durable when it returns.
    async fn send(&self, queue: &QueueName, messages: Vec<Outgoing>) -> Result<SendOutcome, QueueError>;

    /// Receives up to `max` (1 to 10) messages, waiting up to `wait` for the first. Messages of one group come in
    /// order, and none of a group comes while an earlier receive of that group is in flight.
    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError>;

    /// Deletes received messages. A stale receipt deletes nothing and is no error.
    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Makes received messages visible again after `delay`, in their old order.
    async fn release(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError>;

    /// Moves a received message to the dead-letter queue with its cause. A stale receipt moves nothing.
    async fn bury(&self, queue: &QueueName, receipt: &Receipt, cause: &str) -> Result<(), QueueError>;

    /// Reads the dead-letter queue of `queue`, oldest first, from after `after`.
    async fn dead_letters(
        &self,
        queue: &QueueName,
        after: u64,
        limit: usize,
    ) -> Result<Vec<DeadLetter>, QueueError>;

    /// Removes a dead letter; whether it was there.
    async fn forget(&self, queue: &QueueName, id: u64) -> Result<bool, QueueError>;

    /// How full a queue is.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError>;
}
