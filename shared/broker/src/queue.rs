//! The queue port, modelled on SQS FIFO queues: ordered groups, deduplication, visibility timeouts, batches of 10, and partial
//! failures.

use std::time::Duration;

use async_trait::async_trait;

/// Most messages of one request (SQS).
pub const MAX_BATCH: usize = 10;
/// Most bytes of a message. SQS allows 1 MiB; the limit of envelopes is lower.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// Longest wait of a long poll (SQS).
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// Longest delay (SQS).
pub const MAX_DELAY: Duration = Duration::from_mins(15);
/// How long a deduplication id is remembered (SQS).
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_mins(5);
/// How long a received dead letter is hidden.
pub const DEAD_LETTER_VISIBILITY_TIMEOUT: Duration = Duration::from_mins(1);

/// Suffix of the names of FIFO queues (SQS).
pub(crate) const FIFO: &str = ".fifo";
const MAX_ID_BYTES: usize = 128;

/// Name of a queue: up to 80 letters, digits, `-`, `_` and `.`. A queue whose name ends with `.fifo` keeps the order of its groups
/// and deduplicates. Other (standard) queues do not, but can delay messages; only SQS supports them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName(String);

impl QueueName {
    /// Parses a name; `None` if it is invalid.
    pub fn parse(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        let fits = (1..=80).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        fits.then_some(Self(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_fifo(&self) -> bool {
        self.0.strip_suffix(FIFO).is_some()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    pub visibility: Duration,
    /// Receive count at which a message moves to the dead-letter queue instead of being received again; `None` for never.
    pub max_receives: Option<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Messages of a group are received in order, one batch at a time.
    pub group: String,
    /// A message with an id that was sent within five minutes is accepted but not delivered.
    pub deduplication_id: String,
    /// JSON, or text of characters that XML 1.0 allows (SQS). In JSON, other characters are escaped.
    pub body: String,
    /// How long the message is hidden at first; at most [`MAX_DELAY`]. FIFO queues do not support it for single messages.
    pub delay: Duration,
    /// Whether the message was a dead letter before (decision 9).
    pub redriven: bool,
}

impl OutgoingMessage {
    pub fn new(
        group: impl Into<String>,
        deduplication_id: impl Into<String>,
        body: impl Into<String>,
    ) -> Self {
        Self {
            group: group.into(),
            deduplication_id: deduplication_id.into(),
            body: body.into(),
            delay: Duration::ZERO,
            redriven: false,
        }
    }

    /// Checks the limits. All engines do this first, so that none accepts what another refuses.
    pub(crate) fn check(&self, queue: &QueueName) -> Result<(), QueueError> {
        let invalid = |why: &str| Err(QueueError::Invalid(why.to_owned()));
        // Dead letters of a standard queue have no group when they are sent again.
        if !(usize::from(queue.is_fifo())..=MAX_ID_BYTES).contains(&self.group.len()) {
            return invalid("a group has 1 to 128 bytes");
        }
        if !(1..=MAX_ID_BYTES).contains(&self.deduplication_id.len()) {
            return invalid("a deduplication id has 1 to 128 bytes");
        }
        if !(1..=MAX_MESSAGE_BYTES).contains(&self.body.len()) {
            return invalid("a message has 1 byte to 256 KiB");
        }
        if self.delay > MAX_DELAY {
            return invalid("a delay is at most 15 minutes");
        }
        if queue.is_fifo() && !self.delay.is_zero() {
            return invalid("a FIFO queue cannot delay single messages");
        }
        Ok(())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Valid while it is the latest receipt of the message.
    pub receipt: Receipt,
    pub group: String,
    pub body: String,
    /// Number of receives that count, including this one.
    pub receive_count: u32,
    pub redriven: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// Messages that can be received now, or after earlier ones of their group.
    pub visible: u64,
    /// Messages that were received and are neither deleted nor visible again.
    pub in_flight: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Unique across all queues.
    pub id: String,
    /// Valid while it is the latest receipt of the letter.
    pub receipt: Receipt,
    pub group: String,
    pub body: String,
    pub cause: String,
    /// Number of receives before it became a dead letter.
    pub receive_count: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("there is no queue `{0}`")]
    NoSuchQueue(String),
    /// The request can never succeed: a batch over 10, a message over the limit, or a delay on a FIFO queue.
    #[error("invalid request: {0}")]
    Invalid(String),
    /// The engine failed; a retry may succeed.
    #[error("the broker failed")]
    Engine(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Result of sending a batch. Failed messages may be sent again.
#[derive(Debug, Default)]
pub struct SendOutcome {
    /// Failures by position in the batch.
    pub failed: Vec<(usize, QueueError)>,
}

#[async_trait]
pub trait Broker: Send + Sync + 'static {
    /// Creates a queue, or changes the options of an existing one.
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError>;

    /// Removes a queue with all messages. Succeeds if it does not exist.
    async fn remove(&self, queue: &QueueName) -> Result<(), QueueError>;

    /// Sorted names of the queues that begin with `prefix`.
    async fn list(&self, prefix: &str) -> Result<Vec<QueueName>, QueueError>;

    /// Sends up to 10 messages, in order. Messages that are not listed as failed are durable when this returns.
    async fn send(
        &self,
        queue: &QueueName,
        messages: Vec<OutgoingMessage>,
    ) -> Result<SendOutcome, QueueError>;

    /// Receives up to `max` (1 to 10) messages, waiting up to `wait` for the first. Messages of one group arrive in order, and none
    /// arrive while an earlier receive of the group is in flight.
    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError>;

    /// Deletes received messages. Ignores stale receipts.
    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Makes received messages visible again after `delay`, in their previous order.
    async fn release(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError>;

    /// Like [`Self::release`], for messages that only wait. The receive does not count towards the limit of receives, where the
    /// engine can do that; SQS counts it.
    async fn release_uncounted(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError> {
        self.release(queue, receipts, delay).await
    }

    /// Moves a received message to the dead-letter queue with its cause. Ignores a stale receipt.
    async fn dead_letter(&self, queue: &QueueName, message: &Received, cause: &str)
    -> Result<(), QueueError>;

    /// Receives up to `max` (1 to 10) dead letters of `queue`. They are hidden for [`DEAD_LETTER_VISIBILITY_TIMEOUT`] and then visible again,
    /// unless they are deleted. Letters of one group arrive in order, and none arrive while others of the group are hidden.
    async fn receive_dead_letters(
        &self,
        queue: &QueueName,
        max: usize,
    ) -> Result<Vec<DeadLetter>, QueueError>;

    /// Makes received dead letters visible again at once. Ignores stale receipts.
    async fn release_dead_letters(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Deletes a dead letter. Ignores a stale receipt.
    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError>;

    /// Number of dead letters of a queue, including hidden ones.
    async fn dead_letter_depth(&self, queue: &QueueName) -> Result<u64, QueueError>;

    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError>;
}

#[cfg(test)]
mod tests {
    use super::{OutgoingMessage, QueueName};

    /// Dead letters that SQS itself moved from a standard queue have no group and can be sent again.
    #[test]
    fn only_fifo_queues_need_a_group() {
        let message = OutgoingMessage::new("", "1", "body");
        assert!(message.check(&QueueName::parse("events.fifo").unwrap()).is_err());
        assert!(message.check(&QueueName::parse("deadlines").unwrap()).is_ok());
    }
}
