//! The outbox of the embedded profile: journal items in commit order.
//!
//! The single writer allocates the numbers inside the transaction. A reader that has seen number n has therefore seen all lower
//! numbers. In `aws`, the table's stream has this role.

use std::sync::Arc;

use pilothouse_sqlite::{Tx, Watch};

use super::row::StoredRow;
use super::{Memory, SqliteTable, engine_read, engine_write, row};
use crate::table::{Item, TableError};

const TOPIC: &str = "feed";

impl SqliteTable {
    /// The first `limit` journal items after number `after`, in commit order with their numbers. Numbers increase and may have
    /// gaps. An item that is put again with another content appears again.
    pub async fn feed(&self, after: u64, limit: usize) -> Result<Vec<(u64, Item)>, TableError> {
        let now = self.now();
        if let Some(recent) = self.memory.recent.after(after, limit, now) {
            return Ok(recent);
        }
        let (after, limit) =
            (i64::try_from(after).unwrap_or(i64::MAX), i64::try_from(limit).unwrap_or(i64::MAX));
        let fed = self
            .db
            .read(move |conn| {
                conn.prepare_cached(
                    "SELECT pk, sk, kind, version, expires, lp, ls, dp, ds, body, n \
                     FROM feed CROSS JOIN items USING (pk, sk) \
                     WHERE n > ?1 AND (expires IS NULL OR expires > ?2) ORDER BY n LIMIT ?3",
                )?
                .query_map((after, now, limit), |row| {
                    Ok((row.get::<_, i64>(10)?.unsigned_abs(), row::item(row)?))
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
            })
            .await
            .map_err(engine_read)?;
        self.usage.read(&[], false);
        Ok(fed)
    }

    /// Watches the feed. Create the watch, read the feed to its end, wait for the watch, and read on.
    pub fn watch_feed(&self) -> Watch {
        self.db.watch(TOPIC)
    }

    /// Deletes the numbers up to `through`, whose items were processed, except the last number of the feed. The items stay.
    pub async fn trim_feed(&self, through: u64) -> Result<(), TableError> {
        self.memory.recent.trim(through);
        let through = i64::try_from(through).unwrap_or(i64::MAX);
        self.db
            .write_unsynced(move |tx| {
                tx.prepare_cached("DELETE FROM feed WHERE n <= ?1 AND n < (SELECT max(n) FROM feed)")?
                    .execute([through])
                    .map(drop)
            })
            .await
            .map_err(engine_write)
    }
}

/// Allocates a number for a journal item that is about to be put over `row`. A row with the same content keeps its number.
pub(super) fn announce(
    tx: &Tx<'_>,
    item: &Item,
    row: Option<&StoredRow>,
    memory: &Arc<Memory>,
) -> rusqlite::Result<()> {
    let is_same = match row {
        Some(row) => tx
            .prepare_cached("SELECT kind = ?2 AND body = ?3 FROM items WHERE id = ?1")?
            .query_row((row.id, &item.kind, &item.body), |row| row.get(0))?,
        None => false,
    };
    if !is_same {
        tx.prepare_cached("INSERT INTO feed (pk, sk) VALUES (?1, ?2)")?
            .execute((&item.key.partition, &item.key.sort))?;
        let (number, item, memory) =
            (tx.last_insert_rowid().unsigned_abs(), item.clone(), Arc::clone(memory));
        tx.on_commit(move || memory.recent.add(number, item));
        tx.notify(TOPIC);
    }
    Ok(())
}
