//! The queues of the broker and how they behave (architecture: Messages).

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use pilothouse_broker::{Broker, QueueError, QueueName, QueueOptions, Receipt, Received};
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_store::{OwnedRef, WorkerKey};
use pilothouse_wire::keys::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::edge::Problem;
use crate::intake::chain;

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

/// Sessions whose live connections have something to be told (`aws` only); a group a session.
pub fn pushes() -> QueueName {
    named("pushes.fifo")
}

/// Journal entries that are told beyond their sessions; a group an owner.
pub fn announcements() -> QueueName {
    named("announcements.fifo")
}

/// Deliveries to webhooks; a group each, so that none waits for another.
pub fn webhooks() -> QueueName {
    named("webhooks.fifo")
}

/// What is due soon of one session (`aws` only): messages that are delayed until then. No FIFO queue, as those delay
/// all messages alike.
pub fn deadlines() -> QueueName {
    named("deadlines")
}

/// What the names of the queues of commands begin with.
pub const COMMANDS: &str = "commands-";

/// Commands to one run.
pub fn commands(run: RunId) -> QueueName {
    named(format!("{COMMANDS}{run}.fifo"))
}

/// Orders to one worker. Its name is a digest: owners may be called what no queue can.
pub fn worker(key: &WorkerKey) -> QueueName {
    let digest = sha256_hex(format!("{}\0{}", key.owner, key.id).as_bytes());
    named(format!("worker-{}.fifo", &digest[..24]))
}

/// Creates the queue of a worker. What it took and could not carry out it releases itself; what it took and died with
/// comes again after `visibility`.
pub async fn create_worker(
    broker: &dyn Broker,
    key: &WorkerKey,
    visibility: Duration,
) -> Result<(), QueueError> {
    let visibility = visibility.max(Duration::from_secs(1));
    broker.create(&worker(key), QueueOptions { visibility, max_receives: None }).await
}

/// Creates the queues that are always there.
pub async fn create(broker: &dyn Broker) -> Result<(), QueueError> {
    // `intake` and `react` bury what keeps failing themselves, with its cause (ruling 9); the limit is a belt.
    let options = QueueOptions { visibility: VISIBILITY, max_receives: Some(MAX_RECEIVES_OF_OUTAGE + 2) };
    for queue in [events(), reactions(), announcements(), webhooks()] {
        broker.create(&queue, options.clone()).await?;
    }
    Ok(())
}

/// Creates the queue of a run.
pub async fn create_commands(broker: &dyn Broker, run: RunId) -> Result<(), QueueError> {
    broker
        .create(&commands(run), QueueOptions { visibility: Duration::from_secs(30), max_receives: None })
        .await
}

/// What a message of the [`deadlines`] queue says: what to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
pub enum DeadlineOf {
    /// A session.
    Session {
        /// Which.
        session_id: AgentSessionId,
    },
    /// An aggregate that is no session.
    Owned(OwnedRef),
}

/// What is to become of a batch of messages. Those that are named nowhere are gone already: buried.
#[derive(Debug, Default)]
pub struct Settlement {
    /// Dealt with: to be deleted.
    pub done: Vec<Receipt>,
    /// To come again after a pause. Each list holds what failed and what follows it in its group, in order.
    pub again: Vec<(Vec<Receipt>, Duration)>,
}

/// What became of a message that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worked {
    /// It is dealt with.
    Done,
    /// It is to come again after this, with what follows it in its group.
    Later(Duration),
}

/// Works on the messages of a batch of `queue` in order. The first failure of a group stops that group, not the others; a
/// message that keeps failing is moved to the dead letters with its cause, and its group goes on.
pub async fn work_off<F, W>(app: &App, queue: &QueueName, batch: Vec<Received>, work: F) -> Settlement
where
    F: Fn(App, Received) -> W,
    W: Future<Output = Result<Worked, Problem>>,
{
    let mut settlement = Settlement::default();
    // What comes again, by its group, with the pause of the first of it.
    let mut stopped: BTreeMap<String, (Vec<Receipt>, Duration)> = BTreeMap::new();
    for message in batch {
        if let Some((receipts, _)) = stopped.get_mut(&message.group) {
            receipts.push(message.receipt);
            continue;
        }
        let wait = match work(app.clone(), message.clone()).await {
            Ok(Worked::Done) => {
                settlement.done.push(message.receipt);
                continue;
            }
            Ok(Worked::Later(wait)) => wait,
            Err(problem) => {
                let tries = tries(&problem);
                let cause = chain(&problem);
                let (group, receives) = (&message.group, message.receive_count);
                tracing::warn!(queue = queue.as_str(), %group, %cause, receives, "a message failed");
                if receives >= tries && bury(app, queue, &message, &cause).await {
                    continue;
                }
                pause(receives)
            }
        };
        stopped.insert(message.group, (vec![message.receipt], wait));
    }
    settlement.again.extend(stopped.into_values());
    settlement
}

async fn bury(app: &App, queue: &QueueName, message: &Received, cause: &str) -> bool {
    let buried = app.broker.bury(queue, message, cause).await;
    if let Err(error) = &buried {
        tracing::error!(queue = queue.as_str(), group = %message.group, %error, "a message could not be moved to the dead letters");
    }
    buried.is_ok()
}

/// Settles a batch of `queue`: deletes what is done and releases what is to come again.
pub async fn settle(
    broker: &dyn Broker,
    queue: &QueueName,
    settlement: Settlement,
) -> Result<(), QueueError> {
    broker.delete(queue, &settlement.done).await?;
    for (receipts, pause) in settlement.again {
        broker.release(queue, &receipts, pause).await?;
    }
    Ok(())
}
