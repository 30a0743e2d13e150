use pilothouse_sqlite::Tx;
use rusqlite::{OptionalExtension as _, params};

use super::{feed, topic};
use crate::layout;
use crate::table::{Condition, Item, Key, TableError, Write};

/// Checks all conditions before writing.
pub(super) fn transaction(tx: &Tx<'_>, writes: &[Write], now: i64) -> Result<(), TableError> {
    let engine = |e: rusqlite::Error| TableError::Engine(Box::new(e));
    let mut failed = Vec::new();
    for (position, write) in writes.iter().enumerate() {
        let (Write::Put(Item { key, .. }, condition)
        | Write::Delete(key, condition)
        | Write::Check(key, condition)) = write;
        if !holds(tx, key, *condition, now).map_err(engine)? {
            failed.push(position);
        }
    }
    if !failed.is_empty() {
        return Err(TableError::ConditionFailed { writes: failed });
    }
    for write in writes {
        match write {
            Write::Put(item, _) => put(tx, item).map_err(engine)?,
            Write::Delete(key, _) => delete(tx, key).map_err(engine)?,
            Write::Check(..) => {}
        }
    }
    Ok(())
}

fn holds(tx: &Tx<'_>, key: &Key, condition: Condition, now: i64) -> rusqlite::Result<bool> {
    if condition == Condition::Always {
        return Ok(true);
    }
    let version = tx
        .prepare_cached(
            "SELECT version FROM items WHERE pk = ?1 AND sk = ?2 AND (expires IS NULL OR expires > ?3)",
        )?
        .query_row((&key.partition, &key.sort, now), |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(match condition {
        Condition::Always => true,
        Condition::Absent => version.is_none(),
        Condition::Version(expected) => version.map(i64::unsigned_abs) == Some(expected),
    })
}

pub(super) fn put(tx: &Tx<'_>, item: &Item) -> rusqlite::Result<()> {
    if layout::is_outbox(&item.kind) {
        feed::announce(tx, item)?;
    }
    let Item { key, kind, version, listing, due, expires_at, body } = item;
    tx.prepare_cached(
        "INSERT INTO items (pk, sk, kind, version, expires, lp, ls, dp, ds, body) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
         ON CONFLICT (pk, sk) DO UPDATE SET kind = excluded.kind, version = excluded.version, \
         expires = excluded.expires, lp = excluded.lp, ls = excluded.ls, dp = excluded.dp, ds = excluded.ds, \
         body = excluded.body",
    )?
    .execute(params![
        key.partition,
        key.sort,
        kind,
        version.cast_signed(),
        expires_at.map(pilothouse_domain::Timestamp::as_millis),
        listing.as_ref().map(|k| &k.partition),
        listing.as_ref().map(|k| &k.sort),
        due.as_ref().map(|k| &k.partition),
        due.as_ref().map(|k| &k.sort),
        body,
    ])?;
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
