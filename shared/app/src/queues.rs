//! The names and options of the broker's queues (ARCHITECTURE.md, The path of an event).

use std::time::Duration;

use pilothouse_broker::{Broker, QueueError, QueueName, QueueOptions};
use pilothouse_domain::{AgentSessionId, RunId, UserId};
use pilothouse_store::{AggregateRef, WorkerKey};
use pilothouse_wire::keys::sha256_hex;
use serde::{Deserialize, Serialize};

/// The visibility timeout: six times the timeout of the function, as SQS recommends.
const VISIBILITY: Duration = Duration::from_mins(1);
/// The visibility timeout of reviews, which wait for a model.
const REVIEW_VISIBILITY: Duration = Duration::from_mins(12);
/// A limit that only a message reaches that kills its receivers. [`crate::batch`] moves failing messages to the dead letters earlier,
/// with the cause. The embedded broker does not count the receives of messages that only wait; SQS does (decision 9).
const MAX_RECEIVES: u32 = 102;

fn named(name: impl Into<String>) -> QueueName {
    #[allow(clippy::expect_used)] // names made here, of letters, digits and dashes
    QueueName::parse(name).expect("a valid queue name")
}

/// The message group of an owner. It is a digest, because an owner's name may contain characters that a group may not.
pub fn owner_group(owner: &UserId) -> String {
    sha256_hex(owner.as_str().as_bytes())
}

/// Raw events of all sidecars, one group per session.
pub fn events() -> QueueName {
    named("events.fifo")
}

/// References to journal entries with reactions, one group per session.
pub fn reactions() -> QueueName {
    named("reactions.fifo")
}

/// Sessions with new journal entries for their live streams (`aws` only), one group per session.
pub fn pushes() -> QueueName {
    named("pushes.fifo")
}

/// References to journal entries to publish, one group per owner.
pub fn announcements() -> QueueName {
    named("announcements.fifo")
}

/// Deliveries to webhooks and browsers: one group for the first attempts to each, so that they do not delay each other, and one group for
/// the retries of a delivery.
pub fn webhooks() -> QueueName {
    named("webhooks.fifo")
}

/// Coherence issues that a model reviews, and projects whose texts are compared by embeddings: one group of each per project.
pub fn reviews() -> QueueName {
    named("reviews.fifo")
}

/// Sessions and templates with a near deadline (`aws` only), as messages that are delayed until then. Not a FIFO queue, because
/// those cannot delay messages individually.
pub fn deadlines() -> QueueName {
    named("deadlines")
}

pub const COMMANDS: &str = "commands-";

pub fn commands(run: RunId) -> QueueName {
    named(format!("{COMMANDS}{run}.fifo"))
}

/// Orders to a worker. The name is a digest, because the name of an owner may contain characters that a queue name may not.
pub fn worker(key: &WorkerKey) -> QueueName {
    let digest = sha256_hex(format!("{}\0{}", key.owner, key.id).as_bytes());
    named(format!("worker-{}.fifo", &digest[..24]))
}

/// Creates the queue of a worker. The worker releases orders that it failed to execute; orders that it received before a crash
/// become visible again after `visibility`.
pub async fn create_worker(
    broker: &dyn Broker,
    key: &WorkerKey,
    visibility: Duration,
) -> Result<(), QueueError> {
    let visibility = visibility.max(Duration::from_secs(1));
    broker.create(&worker(key), QueueOptions { visibility, max_receives: None }).await
}

/// Creates the queues that always exist.
pub async fn create(broker: &dyn Broker) -> Result<(), QueueError> {
    let options = QueueOptions { visibility: VISIBILITY, max_receives: Some(MAX_RECEIVES) };
    for queue in [events(), reactions(), announcements(), webhooks()] {
        broker.create(&queue, options.clone()).await?;
    }
    let of_reviews = QueueOptions { visibility: REVIEW_VISIBILITY, ..options };
    broker.create(&reviews(), of_reviews).await?;
    Ok(())
}

pub async fn create_commands(broker: &dyn Broker, run: RunId) -> Result<(), QueueError> {
    broker
        .create(&commands(run), QueueOptions { visibility: Duration::from_secs(30), max_receives: None })
        .await
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum DeadlineOf {
    Session {
        session_id: AgentSessionId,
    },
    /// An aggregate other than a session.
    Aggregate(AggregateRef),
}
