use std::sync::Mutex;
use std::time::Duration;

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::Tx;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::state::{Loaded, PickedMessage, State, Stored, Unstored};
use crate::queue::{DEDUPLICATION_WINDOW, OutgoingMessage, QueueOptions, Receipt, Received};

/// Receive counts are separate from the messages, so that a receive does not rewrite the body. Deduplication ids are grouped by
/// generations as long as the window, so that old ones are stored together and two look-ups are enough.
pub(super) const TABLES: &str = "
    CREATE TABLE broker (one INTEGER PRIMARY KEY CHECK (one = 1), starts INTEGER NOT NULL);
    INSERT INTO broker VALUES (1, 0);
    CREATE TABLE queues (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        visibility_ms INTEGER NOT NULL,
        max_receives INTEGER
    );
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        grp TEXT NOT NULL,
        visible_at INTEGER NOT NULL,
        body TEXT NOT NULL
    );
    CREATE TABLE receives (message INTEGER PRIMARY KEY, count INTEGER NOT NULL);
    CREATE TABLE deduplication (
        generation INTEGER NOT NULL,
        queue INTEGER NOT NULL,
        id TEXT NOT NULL,
        sent_at INTEGER NOT NULL,
        PRIMARY KEY (generation, queue, id)
    ) WITHOUT ROWID;
    CREATE TABLE dead_letters (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        grp TEXT NOT NULL,
        body TEXT NOT NULL,
        cause TEXT NOT NULL,
        receives INTEGER NOT NULL
    );
    CREATE INDEX dead_letters_queue ON dead_letters (queue);
";

/// Additions for the redrive of dead letters (decision 9). `shown` counts how often a dead letter was received.
pub(super) const REDRIVE: &str = "
    ALTER TABLE messages DROP COLUMN visible_at;
    ALTER TABLE messages ADD COLUMN redriven INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE dead_letters ADD COLUMN hidden_until INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE dead_letters ADD COLUMN shown INTEGER NOT NULL DEFAULT 0;
";

/// Loads everything but the bodies, and deletes what a removal or crash left behind.
pub(super) fn load(tx: &Tx<'_>) -> rusqlite::Result<Loaded> {
    tx.execute("DELETE FROM messages WHERE queue NOT IN (SELECT number FROM queues)", [])?;
    tx.execute("DELETE FROM receives WHERE message NOT IN (SELECT id FROM messages)", [])?;
    // Each start reserves 2^40 ids, so that ids always increase without being stored one by one.
    let starts: i64 =
        tx.query_row("UPDATE broker SET starts = starts + 1 RETURNING starts", [], |row| row.get(0))?;
    let queues = tx
        .prepare("SELECT number, name, visibility_ms, max_receives FROM queues")?
        .query_map([], |row| {
            let visibility = Duration::from_millis(row.get::<_, i64>(2)?.unsigned_abs());
            Ok((row.get(0)?, row.get(1)?, QueueOptions { visibility, max_receives: row.get(3)? }))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let messages = tx
        .prepare(
            "SELECT queue, id, grp, coalesce(count, 0) \
             FROM messages LEFT JOIN receives ON message = id ORDER BY id",
        )?
        .query_map([], |row| Ok((row.get(0)?, Stored { id: row.get(1)?, group: row.get(2)? }, row.get(3)?)))?
        .collect::<rusqlite::Result<_>>()?;
    Ok(Loaded { queues, messages, first_id: starts << 40 })
}

/// Creates a queue or changes its options. Returns its number.
pub(super) fn create_queue(tx: &Tx<'_>, name: &str, options: &QueueOptions) -> rusqlite::Result<i64> {
    let visibility = i64::try_from(options.visibility.as_millis()).unwrap_or(i64::MAX);
    tx.prepare_cached(
        "INSERT INTO queues (name, visibility_ms, max_receives) VALUES (?1, ?2, ?3) ON CONFLICT (name) \
         DO UPDATE SET visibility_ms = excluded.visibility_ms, max_receives = excluded.max_receives \
         RETURNING number",
    )?
    .query_row(params![name, visibility, options.max_receives], |row| row.get(0))
}

/// Deletes a queue and its dead letters. The caller deletes its messages; its deduplication ids expire.
pub(super) fn remove_queue(tx: &Tx<'_>, queue: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("DELETE FROM queues WHERE number = ?1")?.execute([queue])?;
    tx.prepare_cached("DELETE FROM dead_letters WHERE queue = ?1")?.execute([queue])?;
    Ok(())
}

pub(super) fn queue_exists(tx: &Tx<'_>, queue: i64) -> rusqlite::Result<bool> {
    tx.prepare_cached("SELECT 1 FROM queues WHERE number = ?1")?.exists([queue])
}

const INSERT: &str = "INSERT INTO messages (id, queue, grp, redriven, body) VALUES (?1, ?2, ?3, ?4, ?5)";

/// Stores messages that were only in memory, with their receive counts.
pub(super) fn store_from_memory(tx: &Tx<'_>, queue: i64, messages: &[Unstored]) -> rusqlite::Result<()> {
    let mut insert = tx.prepare_cached(INSERT)?;
    for Unstored { id, group, counted, body } in messages {
        insert.execute((id, queue, group, false, body))?;
        count_receive(tx, *id, *counted)?;
    }
    Ok(())
}

/// Stores messages, except those whose deduplication id was sent within the window.
pub(super) fn store(
    tx: &Tx<'_>,
    state: &Mutex<State>,
    queue: i64,
    messages: Vec<OutgoingMessage>,
    now: Timestamp,
) -> rusqlite::Result<Vec<Stored>> {
    let window = i64::try_from(DEDUPLICATION_WINDOW.as_millis()).unwrap_or(i64::MAX);
    let generation = now.as_millis().div_euclid(window);
    tx.prepare_cached(
        "DELETE FROM deduplication WHERE (generation, queue, id) IN \
         (SELECT generation, queue, id FROM deduplication WHERE generation < ?1 LIMIT 40)",
    )?
    .execute([generation - 1])?;
    let mut sent_before = tx.prepare_cached(
        "SELECT 1 FROM deduplication WHERE generation = ?1 AND queue = ?2 AND id = ?3 AND sent_at > ?4",
    )?;
    let mut remember = tx.prepare_cached("INSERT OR IGNORE INTO deduplication VALUES (?1, ?2, ?3, ?4)")?;
    let mut insert = tx.prepare_cached(INSERT)?;
    let mut stored = Vec::with_capacity(messages.len());
    for message in messages {
        let OutgoingMessage { group, deduplication_id, body, delay: _, redriven } = message;
        let sent_at = now.as_millis();
        if sent_before.exists((generation - 1, queue, &deduplication_id, sent_at - window))?
            || remember.execute((generation, queue, &deduplication_id, sent_at))? == 0
        {
            continue;
        }
        let id = super::lock(state).next_id();
        insert.execute((id, queue, &group, redriven, &body))?;
        stored.push(Stored { id, group });
    }
    Ok(stored)
}

pub(super) fn count_receive(tx: &Tx<'_>, id: i64, count: u32) -> rusqlite::Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO receives (message, count) VALUES (?1, ?2)")?
        .execute((id, count))?;
    Ok(())
}

/// Reads the bodies of messages. Messages that were deleted meanwhile are omitted.
pub(super) fn bodies(conn: &Connection, messages: &[PickedMessage]) -> rusqlite::Result<Vec<Received>> {
    let mut body = conn.prepare_cached("SELECT body, redriven FROM messages WHERE id = ?1")?;
    let mut received = Vec::with_capacity(messages.len());
    for message in messages {
        if let Some(message) = in_memory(message) {
            received.push(message);
            continue;
        }
        let row = body.query_row([message.id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let Some((body, redriven)) = row else { continue };
        received.push(received_message(message, body, redriven));
    }
    Ok(received)
}

/// The message, if it is only in memory.
pub(super) fn in_memory(message: &PickedMessage) -> Option<Received> {
    message.body.as_ref().map(|body| received_message(message, body.to_string(), false))
}

fn received_message(message: &PickedMessage, body: String, redriven: bool) -> Received {
    let PickedMessage { id, group, receives, counted, body: _ } = message;
    let receipt = Receipt(format!("{id}-{receives}"));
    Received { receipt, group: group.to_string(), body, receive_count: *counted, redriven }
}

pub(super) fn delete(tx: &Tx<'_>, ids: &[i64]) -> rusqlite::Result<()> {
    let mut message = tx.prepare_cached("DELETE FROM messages WHERE id = ?1")?;
    let mut receives = tx.prepare_cached("DELETE FROM receives WHERE message = ?1")?;
    for id in ids {
        message.execute([id])?;
        receives.execute([id])?;
    }
    Ok(())
}

/// Moves a message to the dead letters. Without a cause, it was received too often.
pub(super) fn dead_letter(tx: &Tx<'_>, queue: i64, id: i64, cause: Option<&str>) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO dead_letters (queue, grp, body, cause, receives) \
         SELECT queue, grp, body, coalesce(?3, 'received ' || coalesce(count, 0) || ' times and never deleted'), \
         coalesce(count, 0) FROM messages LEFT JOIN receives ON message = id WHERE id = ?1 AND queue = ?2",
    )?
    .execute((id, queue, cause))?;
    delete(tx, &[id])
}
