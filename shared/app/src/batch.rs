//! Processes batches of queue messages: decides which are done, which are retried, and which become dead letters (decision 9).

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use pilothouse_broker::{Broker, QueueError, QueueName, Receipt, Received};

use crate::App;
use crate::error_chain;
use crate::problem::Problem;

/// Receives after which a message that keeps failing becomes a dead letter.
const MAX_RECEIVES: u32 = 5;
/// The same for failures of the store or a queue. With the pauses in between it takes most of an hour, so that an outage does not
/// turn healthy messages into dead letters.
const MAX_RECEIVES_OF_OUTAGE: u32 = 100;
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Groups of a batch that are processed at the same time. They may change the same aggregate, such as a pool.
const CONCURRENT_GROUPS: usize = 4;
/// The pause before the retry of a message for which the disk has no space.
const PAUSE_ON_FULL_DISK: Duration = Duration::from_secs(5);

/// The maximum number of receives of a message that failed with `cause`.
pub fn max_receives(cause: &Problem) -> u32 {
    match cause {
        // The message is valid, so it waits until there is space, however long that takes.
        Problem::StorageFull => u32::MAX,
        _ if cause.is_transient() => MAX_RECEIVES_OF_OUTAGE,
        _ => MAX_RECEIVES,
    }
}

/// When and how a message that failed with `cause` at its `receives`th receive is retried.
pub fn retry_after(cause: &Problem, receives: u32) -> Retry {
    match cause {
        Problem::StorageFull => Retry { pause: PAUSE_ON_FULL_DISK, counts: false },
        _ => Retry { pause: retry_delay(receives), counts: true },
    }
}

/// The pause before the retry of a message that failed at its `receives`th receive. It grows with each receive.
pub fn retry_delay(receives: u32) -> Duration {
    (Duration::from_millis(250) * 2u32.pow(receives.clamp(1, 10))).min(MAX_PAUSE)
}

/// The outcome of a batch of messages. Messages that are not listed were moved to the dead letters.
#[derive(Debug, Default)]
pub struct BatchOutcome {
    pub done: Vec<Receipt>,
    /// Messages to retry after a pause. Each list holds a failed message and its successors in the group, in order.
    pub retry: Vec<(Vec<Receipt>, Duration)>,
    /// The first receipts of those lists whose messages only wait: the receive must not bring them closer to the dead letters.
    pub uncounted: HashSet<Receipt>,
}

/// When a message is received again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    pub pause: Duration,
    /// Whether this receive counts towards the limit of the queue. It does not if the message only waits.
    pub counts: bool,
}

impl BatchOutcome {
    /// Adds a message to retry and its successors in the group, in order.
    pub fn add_retry(&mut self, receipts: Vec<Receipt>, retry: Retry) {
        if !retry.counts {
            self.uncounted.extend(receipts.first().cloned());
        }
        self.retry.push((receipts, retry.pause));
    }

    /// Adds the outcome of another part of the batch.
    pub fn merge(&mut self, other: Self) {
        self.done.extend(other.done);
        self.retry.extend(other.retry);
        self.uncounted.extend(other.uncounted);
    }
}

/// The outcome of a message that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageOutcome {
    Done,
    /// The message must be retried after this pause, with its successors in the group. The receive does not count, except in SQS.
    Later(Duration),
}

/// The messages of each group, in order.
pub fn groups_of(batch: Vec<Received>) -> impl Iterator<Item = Vec<Received>> {
    let mut groups: BTreeMap<String, Vec<Received>> = BTreeMap::new();
    for message in batch {
        groups.entry(message.group.clone()).or_default().push(message);
    }
    groups.into_values()
}

/// Processes the messages of each group in order, and several groups at the same time. The first failure of a group stops that group,
/// not the others. A message of `queue` that keeps failing is moved to the dead letters with its cause, and its group continues.
pub async fn process_batch<F, W>(app: &App, queue: &QueueName, batch: Vec<Received>, work: F) -> BatchOutcome
where
    F: Fn(App, Received) -> W,
    W: Future<Output = Result<MessageOutcome, Problem>>,
{
    let groups = groups_of(batch).map(|group| process_group(app, queue, group, &work));
    let mut outcomes = stream::iter(groups).buffer_unordered(CONCURRENT_GROUPS);
    let mut outcome = BatchOutcome::default();
    while let Some((done, rest)) = outcomes.next().await {
        outcome.done.extend(done);
        if let Some((receipts, retry)) = rest {
            outcome.add_retry(receipts, retry);
        }
    }
    outcome
}

/// Returns the messages that are done, and those to retry.
async fn process_group<F, W>(
    app: &App,
    queue: &QueueName,
    group: Vec<Received>,
    work: &F,
) -> (Vec<Receipt>, Option<(Vec<Receipt>, Retry)>)
where
    F: Fn(App, Received) -> W,
    W: Future<Output = Result<MessageOutcome, Problem>>,
{
    let mut done = Vec::new();
    let mut messages = group.into_iter();
    while let Some(message) = messages.next() {
        let retry = match work(app.clone(), message.clone()).await {
            Ok(MessageOutcome::Done) => {
                done.push(message.receipt);
                continue;
            }
            Ok(MessageOutcome::Later(pause)) => Retry { pause, counts: false },
            Err(problem) => match retry_or_dead_letter(app, queue, &message, &problem).await {
                Some(retry) => retry,
                None => continue,
            },
        };
        let rest = std::iter::once(message.receipt).chain(messages.map(|message| message.receipt));
        return (done, Some((rest.collect(), retry)));
    }
    (done, None)
}

/// Returns when a failed message is retried, or `None` if it was moved to the dead letters.
pub async fn retry_or_dead_letter(
    app: &App,
    queue: &QueueName,
    message: &Received,
    problem: &Problem,
) -> Option<Retry> {
    let cause = error_chain(problem);
    let (group, receives) = (&message.group, message.receive_count);
    tracing::warn!(queue = queue.as_str(), %group, %cause, receives, "failed to process a message");
    let dead_lettered = receives >= max_receives(problem) && dead_letter(app, queue, message, &cause).await;
    (!dead_lettered).then(|| retry_after(problem, receives))
}

async fn dead_letter(app: &App, queue: &QueueName, message: &Received, cause: &str) -> bool {
    let dead_lettered = app.broker.dead_letter(queue, message, cause).await;
    if let Err(error) = &dead_lettered {
        tracing::error!(queue = queue.as_str(), group = %message.group, %error, "failed to move a message to the dead letters");
    }
    dead_lettered.is_ok()
}

/// Settles a batch of `queue`: deletes processed messages and releases those to retry.
pub async fn settle(broker: &dyn Broker, queue: &QueueName, outcome: BatchOutcome) -> Result<(), QueueError> {
    broker.delete(queue, &outcome.done).await?;
    for (receipts, pause) in outcome.retry {
        if receipts.first().is_some_and(|first| outcome.uncounted.contains(first)) {
            broker.release_uncounted(queue, &receipts, pause).await?;
        } else {
            broker.release(queue, &receipts, pause).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use axum::response::IntoResponse as _;
    use http::{StatusCode, header};
    use pilothouse_domain::RunId;
    use pilothouse_runtime::{LaunchError, StopError};
    use pilothouse_store::blob::BlobError;

    use super::*;

    #[test]
    fn full_disk_is_refused_with_507_and_retried_without_limit() {
        let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
        for problem in [
            Problem::internal(QueueError::Engine(Box::new(full()))),
            Problem::internal(BlobError::Engine(Box::new(full()))),
            Problem::internal(LaunchError::Prepare(full())),
        ] {
            assert_eq!((problem.code(), max_receives(&problem)), ("storage-full", u32::MAX));
            assert!(!retry_after(&problem, 1).counts, "nor does the limit of the queue end the retries");
            let response = problem.into_response();
            assert_eq!(response.status(), StatusCode::INSUFFICIENT_STORAGE);
            assert_eq!(response.headers().get(header::RETRY_AFTER).unwrap(), "5");
        }
        let other = Problem::internal(std::io::Error::from(std::io::ErrorKind::NotFound));
        assert_eq!(other.code(), "internal");
        assert!(retry_after(&other, 1).counts);
    }

    #[test]
    fn failing_store_gets_more_attempts_than_a_failing_message() {
        let unavailable = std::io::Error::from(std::io::ErrorKind::TimedOut);
        let outage = Problem::internal(BlobError::Engine(Box::new(unavailable)));
        assert_eq!((max_receives(&outage), max_receives(&Problem::NameTaken)), (100, 5));
    }

    #[test]
    fn kill_of_an_unverified_process_outlasts_a_slow_start() {
        let unverified = StopError::Unverified { run: RunId::new(uuid::Uuid::nil()) };
        assert_eq!(max_receives(&Problem::internal(unverified)), MAX_RECEIVES_OF_OUTAGE);
    }
}
