//! The loops that trigger the functions that HTTP does not: queues, the journal, the clock. In `aws` event sources and
//! schedules do this.

use std::future::Future;
use std::time::Duration;

use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{Broker, MAX_BATCH, MAX_WAIT, QueueError, QueueName, Received};
use pilothouse_functions::intake::chain;
use pilothouse_functions::webhooks::deliver;
use pilothouse_functions::{App, clock, intake, queues, reactions, relay as outbox, telling};
use pilothouse_store::Store;
use pilothouse_store::sqlite::SqliteTable;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Sessions are independent: so many are worked on at once.
const INTAKES: usize = 4;
const REACTORS: usize = 3;
const ANNOUNCERS: usize = 1;
const COURIERS: usize = 4;
/// How often the clock looks.
const TICK: Duration = Duration::from_millis(250);
/// How often expired items are removed, and how many at once.
const SWEEP: Duration = Duration::from_mins(1);
const SWEPT: usize = 500;
/// Journal entries that the relay takes at once.
const RELAYED: usize = 200;
/// How often the relay's place is kept.
const KEPT_EVERY: Duration = Duration::from_secs(1);
/// How long a loop rests after a failure.
const REST: Duration = Duration::from_millis(200);

/// Starts the loops. They end when the set is shut down.
pub(super) fn spawn(app: &App, table: &SqliteTable, broker: &EmbeddedBroker) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for _ in 0..INTAKES {
        let (app, broker) = (app.clone(), broker.clone());
        supervise(&mut tasks, "intake", move || take_events(app.clone(), broker.clone()));
    }
    for _ in 0..REACTORS {
        let (app, broker) = (app.clone(), broker.clone());
        supervise(&mut tasks, "react", move || take_reactions(app.clone(), broker.clone()));
    }
    for _ in 0..ANNOUNCERS {
        let (app, broker) = (app.clone(), broker.clone());
        supervise(&mut tasks, "announce", move || take_announcements(app.clone(), broker.clone()));
    }
    for _ in 0..COURIERS {
        let (app, broker) = (app.clone(), broker.clone());
        supervise(&mut tasks, "deliver", move || take_deliveries(app.clone(), broker.clone()));
    }
    let (store, relayed, relaying) = (app.store.clone(), table.clone(), broker.clone());
    supervise(&mut tasks, "relay", move || relay(store.clone(), relayed.clone(), relaying.clone()));
    let ticking = app.clone();
    supervise(&mut tasks, "clock", move || tick(ticking.clone()));
    let swept = table.clone();
    supervise(&mut tasks, "sweep", move || sweep(swept.clone()));
    tasks
}

/// Runs a loop for ever; one that panics is logged and begun again.
fn supervise<F>(tasks: &mut JoinSet<()>, name: &'static str, make: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tasks.spawn(async move {
        loop {
            // Aborted with its supervisor, as the set is dropped.
            let mut inner = JoinSet::new();
            inner.spawn(make());
            if let Some(Err(error)) = inner.join_next().await {
                tracing::error!(task = name, %error, "a task broke and is begun again");
            }
            tokio::time::sleep(REST).await;
        }
    });
}

/// Takes batches of a queue, of `size` at most, and has them worked on, for ever.
async fn take<F, W>(broker: EmbeddedBroker, queue: QueueName, size: usize, work: F)
where
    F: Fn(Vec<Received>) -> W,
    W: Future<Output = Result<(), QueueError>>,
{
    loop {
        let outcome = match broker.receive(&queue, size, MAX_WAIT).await {
            Ok(batch) if batch.is_empty() => continue,
            Ok(batch) => work(batch).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::error!(queue = queue.as_str(), cause = %chain(&error), "a batch could not be dealt with");
            tokio::time::sleep(REST).await;
        }
    }
}

async fn take_events(app: App, broker: EmbeddedBroker) {
    take(broker, queues::events(), MAX_BATCH, |batch| intake::handle(&app, batch)).await;
}

async fn take_reactions(app: App, broker: EmbeddedBroker) {
    take(broker, queues::reactions(), MAX_BATCH, |batch| reactions::handle(&app, batch)).await;
}

async fn take_announcements(app: App, broker: EmbeddedBroker) {
    take(broker, queues::announcements(), MAX_BATCH, |batch| telling::handle(&app, batch)).await;
}

/// One at a time: an endpoint may take its time, and others wait behind it.
async fn take_deliveries(app: App, broker: EmbeddedBroker) {
    take(broker, queues::webhooks(), 1, |batch| deliver::handle(&app, batch)).await;
}

/// Hands journal entries to the reactions, in the order of their commits.
///
/// Its place is kept after the sending, so that an entry may be handed on twice and never not at all; and it is kept
/// now and then only, so that commits do not cost two more. What is handed on twice after a crash is known to the queue
/// by its id, and does nothing twice: reactions look at the state as it is.
async fn relay(store: Store, table: SqliteTable, broker: EmbeddedBroker) {
    let mut watch = table.watch_feed();
    let mut place = None;
    loop {
        match relay_some(&store, &table, &broker, &mut place).await {
            Ok(true) => {}
            Ok(false) => {
                let due = place.as_ref().and_then(Place::keep_at).unwrap_or_else(|| Instant::now() + SWEEP);
                tokio::select! {
                    open = watch.touched() => if !open { return },
                    () = tokio::time::sleep_until(due) => {},
                }
            }
            Err(error) => {
                tracing::error!(cause = %chain(error.as_ref()), "journal entries could not be handed on");
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// How far the relay is.
struct Place {
    /// The last entry that was handed on.
    after: u64,
    /// Since when that is further than what is kept durably.
    unkept_since: Option<Instant>,
}

impl Place {
    fn keep_at(&self) -> Option<Instant> {
        self.unkept_since.map(|since| since + KEPT_EVERY)
    }
}

async fn relay_some(
    store: &Store,
    table: &SqliteTable,
    broker: &EmbeddedBroker,
    place: &mut Option<Place>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let place = match place {
        Some(place) => place,
        None => place.insert(Place { after: store.relay_place().await?, unkept_since: None }),
    };
    let fed = table.feed(place.after, RELAYED).await?;
    let (mut reactions, mut announcements) = (Vec::new(), Vec::new());
    for (_, item) in &fed {
        match outbox::hand_on(item) {
            Ok((reaction, announcement)) => {
                reactions.extend(reaction);
                announcements.extend(announcement);
            }
            // One session's damage must not stop all the others.
            Err(error) => {
                tracing::error!(key = ?item.key, cause = %chain(&error), "a journal entry is left out");
            }
        }
    }
    for (queue, messages) in [(queues::reactions(), reactions), (queues::announcements(), announcements)] {
        for batch in messages.chunks(MAX_BATCH) {
            let outcome = broker.send(&queue, batch.to_vec()).await?;
            if let Some((_, error)) = outcome.failed.into_iter().next() {
                return Err(error.into());
            }
        }
    }
    if let Some((last, _)) = fed.last() {
        place.after = *last;
        place.unkept_since.get_or_insert_with(Instant::now);
    }
    if place.keep_at().is_some_and(|at| at <= Instant::now()) {
        store.move_relay(place.after).await?;
        table.trim_feed(place.after).await?;
        place.unkept_since = None;
    }
    Ok(!fed.is_empty())
}

async fn tick(app: App) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(error) = clock::tick(&app).await {
            tracing::error!(cause = %chain(&error), "the clock could not look");
        }
    }
}

async fn sweep(table: SqliteTable) {
    let mut ticks = tokio::time::interval(SWEEP);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        loop {
            match table.sweep_expired(SWEPT).await {
                Ok(SWEPT) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(cause = %chain(&error), "expired items could not be removed");
                    break;
                }
            }
        }
    }
}
