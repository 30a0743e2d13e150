//! Relays journal entries to queues. In `aws` a table stream triggers the function `relay`.

use std::collections::VecDeque;
use std::time::Duration;

use pilothouse_app::error_chain;
use pilothouse_app::queues;
use pilothouse_broker::embedded::{EmbeddedBroker, MessageId};
use pilothouse_functions::events::relay as outbox;
use pilothouse_store::Store;
use pilothouse_store::sqlite::SqliteTable;
use tokio::time::Instant;

use super::waiting::{RETRY_DELAY, WritableDisk};

const RELAY_BATCH: usize = 200;
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for new entries before the relay looks again.
const IDLE_INTERVAL: Duration = Duration::from_mins(1);

/// Relays journal entries to the queues of reactions, notifications and reviews, in commit order.
///
/// The messages to reactions and notifications stay in memory, because the journal is durable: the stored position stays before the
/// oldest entry whose messages are neither done nor stored, and after a crash the server relays all later entries again. The position
/// is stored once a second, so that a commit does not cost another write. Reactions read the current state, so a repetition has no
/// effect.
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
    /// Entries whose messages may not be done yet, each with its last message; oldest first.
    open: VecDeque<(u64, MessageId)>,
    /// The last entry that a restart does not have to relay again.
    done: u64,
    stored: u64,
    store_at: Instant,
    /// Whether entries of an earlier process are relayed. One of them may have crashed that process, so their messages are stored,
    /// together with their receive counts.
    catches_up: bool,
}

impl Position {
    fn new(stored: u64) -> Self {
        Self {
            after: stored,
            open: VecDeque::new(),
            done: stored,
            stored,
            store_at: Instant::now() + STORE_INTERVAL,
            catches_up: true,
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
    broker.send_all(&queues::reviews(), &reviews).await?;
    let batches = [(queues::reactions(), reactions), (queues::announcements(), announcements)];
    match entries.last() {
        Some((entry, _)) if position.catches_up => {
            for (queue, messages) in &batches {
                broker.send_all(queue, messages).await?;
            }
            position.relayed(*entry, None);
        }
        Some((entry, _)) => {
            let last = broker.send_in_memory(batches.into()).await?;
            position.relayed(*entry, last);
        }
        None => position.catches_up = false,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_broker::{Broker as _, OutgoingMessage};
    use pilothouse_sqlite::{Database, system_clock};

    use super::*;

    #[tokio::test]
    async fn position_stays_before_the_oldest_unfinished_entry() {
        let folder = tempfile::tempdir().unwrap();
        let schema = pilothouse_broker::embedded::SCHEMA;
        let db = Database::open(folder.path().join("db"), &[schema]).unwrap();
        let broker = EmbeddedBroker::open(db, system_clock()).await.unwrap();
        queues::create(&broker).await.unwrap();
        let send = async |group: &str| {
            let message = OutgoingMessage::new(group, group, "{}");
            broker.send_in_memory(vec![(queues::reactions(), vec![message])]).await.unwrap()
        };
        let mut position = Position::new(10);
        position.relayed(11, send("a").await);
        position.relayed(12, None);
        position.relayed(13, send("b").await);
        position.relayed(14, None);
        position.update(broker.first_in_memory());
        assert_eq!(position.done, 10, "nothing is done");

        let received = broker.receive(&queues::reactions(), 10, Duration::ZERO).await.unwrap();
        let receipt = |group: &str| received.iter().find(|it| it.group == group).unwrap().receipt.clone();
        broker.delete(&queues::reactions(), &[receipt("b")]).await.unwrap();
        position.update(broker.first_in_memory());
        assert_eq!(position.done, 10, "the first message is not done");

        broker.delete(&queues::reactions(), &[receipt("a")]).await.unwrap();
        position.update(broker.first_in_memory());
        assert_eq!((position.done, position.is_stored()), (14, false));
    }
}
