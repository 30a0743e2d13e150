use std::sync::Arc;

use pilothouse_sqlite::Tx;
use rusqlite::{OptionalExtension as _, params};

use super::row::{StoredRow, expiry};
use super::{Memory, feed, kept_items, topic};
use crate::layout;
use crate::table::{Condition, Item, Key, ParsedBody, TableError, Write};

/// Checks all conditions before writing.
pub(super) fn transaction(
    tx: &Tx<'_>,
    writes: &[Write],
    values: Vec<(Key, ParsedBody)>,
    now: i64,
    memory: &Arc<Memory>,
) -> Result<(), TableError> {
    let engine = |e: rusqlite::Error| TableError::Engine(Box::new(e));
    let mut rows = Vec::with_capacity(writes.len());
    let mut failed = Vec::new();
    for (position, write) in writes.iter().enumerate() {
        let (key, condition, replacement) = match write {
            Write::Put(item, condition) => (&item.key, *condition, Some(item)),
            Write::Delete(key, condition) | Write::Check(key, condition) => (key, *condition, None),
        };
        let row = if replacement.is_none() && condition == Condition::Always {
            None
        } else {
            StoredRow::find(tx, key, replacement).map_err(engine)?
        };
        if !holds(condition, row.as_ref(), now) {
            failed.push(position);
        }
        rows.push(row);
    }
    if !failed.is_empty() {
        return Err(TableError::ConditionFailed { writes: failed });
    }
    kept_items::keep(tx, memory, writes, values);
    for (write, row) in writes.iter().zip(rows) {
        match write {
            Write::Put(item, _) => put_over(tx, item, row.as_ref(), memory).map_err(engine)?,
            Write::Delete(key, _) => delete(tx, key).map_err(engine)?,
            Write::Check(..) => {}
        }
    }
    Ok(())
}

fn holds(condition: Condition, row: Option<&StoredRow>, now: i64) -> bool {
    let row = row.filter(|row| row.expires.is_none_or(|expires| expires > now));
    match condition {
        Condition::Always => true,
        Condition::Absent => row.is_none(),
        Condition::Version(expected) => row.is_some_and(|row| row.version == expected),
    }
}

/// Puts an item whatever the key has.
pub(super) fn put(tx: &Tx<'_>, item: &Item, memory: &Arc<Memory>) -> rusqlite::Result<()> {
    let row = StoredRow::find(tx, &item.key, Some(item))?;
    kept_items::keep_item(tx, memory, item);
    put_over(tx, item, row.as_ref(), memory)
}

/// Puts an item in place of `row`. SQLite writes each index of a column that a statement sets, even if the value stays, so a
/// statement sets the columns of the indexes only if one of them changes.
fn put_over(tx: &Tx<'_>, item: &Item, row: Option<&StoredRow>, memory: &Arc<Memory>) -> rusqlite::Result<()> {
    if layout::is_outbox(&item.kind) {
        feed::announce(tx, item, row, memory)?;
    }
    let Item { key, kind, version, listing, due, expires_at: _, body } = item;
    let version = version.cast_signed();
    let (lp, ls) = (listing.as_ref().map(|k| &k.partition), listing.as_ref().map(|k| &k.sort));
    let (dp, ds) = (due.as_ref().map(|k| &k.partition), due.as_ref().map(|k| &k.sort));
    match row {
        Some(row) if row.keeps_places => tx
            .prepare_cached("UPDATE items SET kind = ?2, version = ?3, body = ?4 WHERE id = ?1")?
            .execute(params![row.id, kind, version, body])?,
        Some(row) => tx
            .prepare_cached(
                "UPDATE items SET kind = ?2, version = ?3, expires = ?4, lp = ?5, ls = ?6, dp = ?7, ds = ?8, \
                 body = ?9 WHERE id = ?1",
            )?
            .execute(params![row.id, kind, version, expiry(item), lp, ls, dp, ds, body])?,
        None => tx
            .prepare_cached(
                "INSERT INTO items (pk, sk, kind, version, expires, lp, ls, dp, ds, body) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute(params![key.partition, key.sort, kind, version, expiry(item), lp, ls, dp, ds, body])?,
    };
    tx.notify(topic(&key.partition));
    if let Some(listing) = listing {
        tx.notify(topic(&listing.partition));
    }
    Ok(())
}

fn delete(tx: &Tx<'_>, key: &Key) -> rusqlite::Result<()> {
    let listing: Option<Option<String>> = tx
        .prepare_cached("DELETE FROM items WHERE pk = ?1 AND sk = ?2 RETURNING lp")?
        .query_row((&key.partition, &key.sort), |row| row.get(0))
        .optional()?;
    if let Some(listing) = listing {
        tx.notify(topic(&key.partition));
        if let Some(partition) = listing {
            tx.notify(topic(&partition));
        }
    }
    Ok(())
}

pub(super) fn sweep(tx: &Tx<'_>, now: i64, limit: i64) -> rusqlite::Result<usize> {
    tx.prepare_cached(
        "DELETE FROM items WHERE id IN (SELECT id FROM items WHERE expires <= ?1 ORDER BY expires LIMIT ?2)",
    )?
    .execute((now, limit))
}
