//! Relays journal entries to queues. In `aws` a table stream triggers the function `relay`.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_app::error_chain;
use pilothouse_app::queues;
use pilothouse_broker::embedded::{EmbeddedBroker, MessageId};
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
/// The messages stay in memory, because the journal is durable: the stored position follows the oldest entry whose messages are not
/// done yet, and a server that crashed relays everything after it again. The position is stored once a second, so that a commit
/// does not cost another write. Reactions read the current state, so a repetition has no effect.
pub(super) async fn relay(store: Store, table: SqliteTable, broker: EmbeddedBroker, mut disk: WritableDisk) {
    let mut watch = table.watch_feed();
    let mut position = None;
    loop {
        disk.ready().await;
        match relay_batch(&store, &table, &broker, &mut position).await {
            Ok(true) => {}
            Ok(false) => {
                let due = match &position {
                    Some(position) if !position.is_stored() => position.store_at,
                    _ => Instant::now() + IDLE_INTERVAL,
                };
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
    /// The last relayed entry.
    after: u64,
    /// Entries whose messages may not be done yet, each with the last of them; oldest first.
    open: VecDeque<(u64, MessageId)>,
    /// The last entry that a restart does not have to relay again.
    done: u64,
    stored: u64,
    store_at: Instant,
}

impl Position {
    fn new(stored: u64) -> Self {
        Self {
            after: stored,
            open: VecDeque::new(),
            done: stored,
            stored,
            store_at: Instant::now() + STORE_INTERVAL,
        }
    }

    /// Records that the messages of the entries up to `entry` were sent.
    fn relayed(&mut self, entry: u64, last: Option<MessageId>) {
        self.after = entry;
        if let Some(last) = last {
            self.open.push_back((entry, last));
        }
    }

    /// Updates `done`. `first` is the oldest message that is not done yet.
    fn update(&mut self, first: Option<MessageId>) {
        while let Some(&(entry, last)) = self.open.front()
            && first.is_none_or(|first| last < first)
        {
            self.done = entry;
            self.open.pop_front();
        }
        if self.open.is_empty() {
            self.done = self.after;
        }
    }

    fn is_stored(&self) -> bool {
        self.open.is_empty() && self.done == self.stored
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
        None => position.insert(Position::new(store.relay_position().await?)),
    };
    let entries = table.feed(position.after, RELAY_BATCH).await?;
    let (mut reactions, mut announcements, mut reviews) = (Vec::new(), Vec::new(), Vec::new());
    for (_, item) in &entries {
        match outbox::messages_for_entry(item) {
            Ok(messages) => {
                reactions.extend(messages.reaction);
                announcements.extend(messages.announcement);
                reviews.extend(messages.review);
            }
            // One damaged session must not stop all others.
            Err(error) => {
                tracing::error!(key = ?item.key, cause = %error_chain(&error), "skipping a damaged journal entry");
            }
        }
    }
    // A model takes seconds, so reviews must not hold the position back.
    for batch in reviews.chunks(MAX_BATCH) {
        let outcome = broker.send(&queues::reviews(), batch.to_vec()).await?;
        if let Some((_, error)) = outcome.failed.into_iter().next() {
            return Err(error.into());
        }
    }
    if let Some((entry, _)) = entries.last() {
        let reaction = broker.send_in_memory(&queues::reactions(), reactions)?;
        let announcement = broker.send_in_memory(&queues::announcements(), announcements)?;
        position.relayed(*entry, reaction.max(announcement));
    }
    if position.store_at <= Instant::now() {
        position.update(broker.first_in_memory());
        if position.done != position.stored {
            store.set_relay_position(position.done).await?;
            table.trim_feed(position.done).await?;
            position.stored = position.done;
        }
        position.store_at = Instant::now() + STORE_INTERVAL;
    }
    Ok(!entries.is_empty())
}
