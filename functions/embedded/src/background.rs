//! Supervises the background tasks: queue consumers, the journal relay, the clock, the removal of expired items. In `aws`, event
//! sources and schedules do this.

use std::future::Future;
use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::error_chain;
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_functions::events::clock;
use pilothouse_sqlite::Database;
use pilothouse_store::sqlite::SqliteTable;
use tokio::task::JoinSet;

use super::journal_relay::relay;
use super::queue_consumers::{
    consume_deliveries, consume_events, consume_notifications, consume_reactions, consume_reviews,
};
use super::waiting::{RETRY_DELAY, WritableDisk};

/// Number of consumers of each queue. Sessions are independent, so several run concurrently.
const INTAKE_CONSUMERS: usize = 4;
const REACTION_CONSUMERS: usize = 3;
const NOTIFICATION_CONSUMERS: usize = 1;
/// A model takes seconds, and projects should not wait for each other.
const REVIEW_CONSUMERS: usize = 4;
const CLOCK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the removal of expired items, and the most items at once.
const EXPIRY_INTERVAL: Duration = Duration::from_mins(1);
const EXPIRY_BATCH: usize = 500;
/// Starts the tasks. They end when the set is shut down.
pub(super) fn spawn(app: &App, table: &SqliteTable, broker: &EmbeddedBroker, db: &Database) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let disk = WritableDisk::of(db);
    for _ in 0..INTAKE_CONSUMERS {
        let (app, broker, disk) = (app.clone(), broker.clone(), disk.clone());
        supervise(&mut tasks, "intake", move || consume_events(app.clone(), broker.clone(), disk.clone()));
    }
    for _ in 0..REACTION_CONSUMERS {
        let (app, broker, disk) = (app.clone(), broker.clone(), disk.clone());
        supervise(&mut tasks, "react", move || consume_reactions(app.clone(), broker.clone(), disk.clone()));
    }
    for _ in 0..NOTIFICATION_CONSUMERS {
        let (app, broker, disk) = (app.clone(), broker.clone(), disk.clone());
        supervise(&mut tasks, "announce", move || {
            consume_notifications(app.clone(), broker.clone(), disk.clone())
        });
    }
    for _ in 0..REVIEW_CONSUMERS {
        let (app, broker, disk) = (app.clone(), broker.clone(), disk.clone());
        supervise(&mut tasks, "coherence-review", move || {
            consume_reviews(app.clone(), broker.clone(), disk.clone())
        });
    }
    let (delivering, deliveries, written) = (app.clone(), broker.clone(), disk.clone());
    supervise(&mut tasks, "deliver", move || {
        consume_deliveries(delivering.clone(), deliveries.clone(), written.clone())
    });
    let (store, relayed, relaying) = (app.store.clone(), table.clone(), broker.clone());
    let written = disk.clone();
    supervise(&mut tasks, "relay", move || {
        relay(store.clone(), relayed.clone(), relaying.clone(), written.clone())
    });
    let (ticking, written) = (app.clone(), disk.clone());
    supervise(&mut tasks, "clock", move || tick(ticking.clone(), written.clone()));
    let swept = table.clone();
    supervise(&mut tasks, "expiry", move || remove_expired(swept.clone(), disk.clone()));
    tasks
}

/// Runs a task forever; restarts it after a panic.
fn supervise<F>(tasks: &mut JoinSet<()>, name: &'static str, make: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    tasks.spawn(async move {
        loop {
            // Aborted with its supervisor, when the set is dropped.
            let mut inner = JoinSet::new();
            inner.spawn(make());
            if let Some(Err(error)) = inner.join_next().await {
                tracing::error!(task = name, %error, "a task panicked; restarting it");
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
    });
}

async fn tick(app: App, mut disk: WritableDisk) {
    let mut ticks = tokio::time::interval(CLOCK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        disk.ready().await;
        if let Err(error) = clock::tick(&app).await {
            tracing::error!(cause = %error_chain(&error), "failed to process due deadlines");
        }
    }
}

async fn remove_expired(table: SqliteTable, mut disk: WritableDisk) {
    let mut ticks = tokio::time::interval(EXPIRY_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        disk.ready().await;
        loop {
            match table.sweep_expired(EXPIRY_BATCH).await {
                Ok(EXPIRY_BATCH) => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::error!(cause = %error_chain(&error), "failed to remove expired items");
                    break;
                }
            }
        }
    }
}
