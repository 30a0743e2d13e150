//! The Queue port, in the shape of SQS FIFO: groups in order, deduplication, visibility, batches of 10, partial
//! failures.

use std::time::Duration;

use async_trait::async_trait;

/// The most messages of one request (SQS).
pub const MAX_BATCH: usize = 10;
/// The largest message in bytes. SQS takes 1 MiB; the envelope's own limit is lower.
pub const MAX_MESSAGE_BYTES: usize = 256 * 1024;
/// The longest wait of a long poll (SQS).
pub const MAX_WAIT: Duration = Duration::from_secs(20);
/// The longest delay (SQS).
pub const MAX_DELAY: Duration = Duration::from_mins(15);
/// How long a deduplication id is remembered (SQS).
pub const DEDUPLICATION_WINDOW: Duration = Duration::from_mins(5);
/// How long a dead letter that was received is hidden from others.
pub const DEAD_LETTER_HIDDEN: Duration = Duration::from_mins(1);

/// What the name of every FIFO queue ends with (SQS).
pub(crate) const FIFO: &str = ".fifo";
/// The longest group name and deduplication id in bytes (SQS).
const MAX_ID_BYTES: usize = 128;

/// The name of a queue: letters, digits, `-`, `_` and `.`, at most 80. One that ends with `.fifo` keeps the order of its
/// groups and knows deduplication ids; the others do neither, and delay messages. Only SQS has those.
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

    /// Whether it is one of a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.0.strip_suffix(FIFO).is_some()
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
    /// The message: JSON, or text of characters that XML 1.0 knows too (SQS; in JSON the others are escaped).
    pub body: String,
    /// How long it is hidden at first; at most [`MAX_DELAY`]. A FIFO queue delays all its messages alike, so it takes none
    /// with a delay of its own.
    pub delay: Duration,
    /// Whether it was a dead letter and is sent again (ruling 9).
    pub redriven: bool,
}

impl Outgoing {
    /// A message that is there at once.
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

    /// Whether a broker can take it. Every engine asks this first, so that none takes what another refuses.
    pub(crate) fn check(&self, queue: &QueueName) -> Result<(), QueueError> {
        let invalid = |why: &str| Err(QueueError::Invalid(why.to_owned()));
        // A standard queue keeps no groups: its dead letters have none when they are sent again.
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
            return invalid("a FIFO queue delays no single message");
        }
        Ok(())
    }
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
    /// Whether it was a dead letter and was sent again.
    pub redriven: bool,
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
}

/// A message of a dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Names this letter: no other one, of whatever queue, has it.
    pub id: String,
    /// Takes it away, for as long as this receipt is the latest.
    pub receipt: Receipt,
    /// Its group.
    pub group: String,
    /// The message.
    pub body: String,
    /// Why it is here.
    pub cause: String,
    /// How often it was received before it became one.
    pub receive_count: u32,
}

/// Why the broker did not do it.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// There is no such queue.
    #[error("there is no queue `{0}`")]
    NoSuchQueue(String),
    /// The request can never work: a batch over 10, a message over the limit, a delay on a FIFO queue.
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
    /// Creates a queue, or changes the options of the one that is there.
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

    /// Moves a received message to the dead-letter queue with its cause. One whose receipt is stale is not moved.
    async fn bury(&self, queue: &QueueName, message: &Received, cause: &str) -> Result<(), QueueError>;

    /// Receives up to `max` (1 to 10) dead letters of `queue`. They are hidden for [`DEAD_LETTER_HIDDEN`] and shown again
    /// unless they are forgotten. Those of one group come in order, and none of a group comes while others of it are
    /// hidden.
    async fn receive_dead(&self, queue: &QueueName, max: usize) -> Result<Vec<DeadLetter>, QueueError>;

    /// Shows received dead letters again at once. A stale receipt shows nothing.
    async fn show_dead(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError>;

    /// Removes a dead letter. A stale receipt removes nothing and is no error.
    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError>;

    /// How many dead letters a queue has, hidden ones included.
    async fn dead_depth(&self, queue: &QueueName) -> Result<u64, QueueError>;

    /// How full a queue is.
    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError>;
}

#[cfg(test)]
mod tests {
    use super::{Outgoing, QueueName};

    /// What SQS itself moves to the dead letters of a standard queue has no group, and can be sent again.
    #[test]
    fn only_a_fifo_queue_wants_a_group() {
        let message = Outgoing::new("", "1", "body");
        assert!(message.check(&QueueName::parse("events.fifo").unwrap()).is_err());
        assert!(message.check(&QueueName::parse("deadlines").unwrap()).is_ok());
    }
}
