//! The queues of the broker and how they behave (architecture: Messages).

use std::time::Duration;

use pilothouse_broker::{Broker, QueueError, QueueName, QueueOptions};
use pilothouse_domain::RunId;

use crate::edge::Problem;

/// How long a function may work on a batch before others get it: six times its timeout (SQS's own advice).
const VISIBILITY: Duration = Duration::from_mins(1);
/// At which receive a message that fails by itself goes to the dead-letter queue.
const MAX_RECEIVES: u32 = 5;
/// The same for one that fails because the store or a queue does: with the pauses in between, the better part of an
/// hour. An outage must not turn healthy messages into dead letters.
const MAX_RECEIVES_OF_OUTAGE: u32 = 100;
/// The longest pause before a message is tried again.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How often a message may be received that failed for `cause`.
pub fn tries(cause: &Problem) -> u32 {
    if cause.is_transient() { MAX_RECEIVES_OF_OUTAGE } else { MAX_RECEIVES }
}

/// How long a message that failed at its `receives`th receive waits before it is tried again: longer each time.
pub fn pause(receives: u32) -> Duration {
    (Duration::from_millis(250) * 2u32.pow(receives.clamp(1, 10))).min(MAX_PAUSE)
}

fn named(name: impl Into<String>) -> QueueName {
    #[allow(clippy::expect_used)] // names made here, of letters, digits and dashes
    QueueName::parse(name).expect("a valid queue name")
}

/// Raw events of all sidecars; a group a session.
pub fn events() -> QueueName {
    named("events.fifo")
}

/// Journal entries that something follows from; a group a session.
pub fn reactions() -> QueueName {
    named("reactions.fifo")
}

/// Commands to one run.
pub fn commands(run: RunId) -> QueueName {
    named(format!("commands-{run}.fifo"))
}

/// Creates the queues that are always there.
pub async fn create(broker: &dyn Broker) -> Result<(), QueueError> {
    // `intake` and `react` bury what keeps failing themselves, with its cause (ruling 9); the limit is a belt.
    let options = QueueOptions { visibility: VISIBILITY, max_receives: Some(MAX_RECEIVES_OF_OUTAGE + 2) };
    broker.create(&events(), options.clone()).await?;
    broker.create(&reactions(), options).await
}

/// Creates the queue of a run.
pub async fn create_commands(broker: &dyn Broker, run: RunId) -> Result<(), QueueError> {
    broker
        .create(&commands(run), QueueOptions { visibility: Duration::from_secs(30), max_receives: None })
        .await
}
