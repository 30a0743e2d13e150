//! Relays journal entries to queues. In `aws` a table stream triggers the function `relay`.

use std::time::Duration;

use pilothouse_app::error_chain;
use pilothouse_app::queues;
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{Broker, MAX_BATCH};
use pilothouse_functions::events::relay as outbox;
use pilothouse_store::Store;
use pilothouse_store::sqlite::SqliteTable;
use tokio::time::Instant;

use super::waiting::{RETRY_DELAY, WritableDisk};

const RELAY_BATCH: usize = 200;
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for new entries before the relay looks again.
const IDLE_INTERVAL: Duration = Duration::from_mins(1);

/// Relays journal entries to the queues of reactions and notifications, in commit order.
///
/// Stores its position after sending, so that an entry is relayed at least once; and only
/// once a second, so that commits do not cost two more writes. The queue recognizes repeated entries
/// by id, and reactions read the current state, so a repetition has no effect.
pub(super) async fn relay(store: Store, table: SqliteTable, broker: EmbeddedBroker, mut disk: WritableDisk) {
    let mut watch = table.watch_feed();
    let mut position = None;
    loop {
        disk.ready().await;
        match relay_batch(&store, &table, &broker, &mut position).await {
            Ok(true) => {}
            Ok(false) => {
                let due = position
                    .as_ref()
                    .and_then(Position::store_at)
                    .unwrap_or_else(|| Instant::now() + IDLE_INTERVAL);
                tokio::select! {
                    open = watch.changed() => if !open { return },
                    () = tokio::time::sleep_until(due) => {},
                }
            }
            Err(error) => {
                tracing::error!(cause = %error_chain(error.as_ref()), "failed to relay journal entries");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

struct Position {
    after: u64,
    /// Since when the stored position is behind.
    unstored_since: Option<Instant>,
}

impl Position {
    fn store_at(&self) -> Option<Instant> {
        self.unstored_since.map(|since| since + STORE_INTERVAL)
    }
}

async fn relay_batch(
    store: &Store,
    table: &SqliteTable,
    broker: &EmbeddedBroker,
    position: &mut Option<Position>,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let position = match position {
        Some(position) => position,
        None => position.insert(Position { after: store.relay_position().await?, unstored_since: None }),
    };
    let entries = table.feed(position.after, RELAY_BATCH).await?;
    let (mut reactions, mut announcements) = (Vec::new(), Vec::new());
    for (_, item) in &entries {
        match outbox::messages_for_entry(item) {
            Ok((reaction, announcement)) => {
                reactions.extend(reaction);
                announcements.extend(announcement);
            }
            // One damaged session must not stop all others.
            Err(error) => {
                tracing::error!(key = ?item.key, cause = %error_chain(&error), "skipping a damaged journal entry");
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
    if let Some((last, _)) = entries.last() {
        position.after = *last;
        position.unstored_since.get_or_insert_with(Instant::now);
    }
    if position.store_at().is_some_and(|at| at <= Instant::now()) {
        store.set_relay_position(position.after).await?;
        table.trim_feed(position.after).await?;
        position.unstored_since = None;
    }
    Ok(!entries.is_empty())
}
