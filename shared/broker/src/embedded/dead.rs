//! Dead letters. They are received in order within a group, and hidden while in use.

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::Tx;
use rusqlite::Connection;

use crate::queue::{DeadLetter, Receipt};

/// Receives up to `max` visible letters and hides them until `until`. A group with hidden letters is skipped.
pub(super) fn receive(
    tx: &Tx<'_>,
    queue: i64,
    max: usize,
    now: Timestamp,
    until: Timestamp,
) -> rusqlite::Result<Vec<DeadLetter>> {
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let letters = tx
        .prepare_cached(
            "SELECT id, grp, body, cause, receives, shown + 1 FROM dead_letters AS letter \
             WHERE queue = ?1 AND NOT EXISTS (SELECT 1 FROM dead_letters AS other \
             WHERE other.queue = ?1 AND other.grp = letter.grp AND other.hidden_until > ?2) \
             ORDER BY id LIMIT ?3",
        )?
        .query_map((queue, now.as_millis(), max), |row| {
            let (id, shown): (i64, i64) = (row.get(0)?, row.get(5)?);
            let letter = DeadLetter {
                id: id.to_string(),
                receipt: Receipt(format!("{id}-{shown}")),
                group: row.get(1)?,
                body: row.get(2)?,
                cause: row.get(3)?,
                receive_count: row.get(4)?,
            };
            Ok((id, letter))
        })?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let mut hide =
        tx.prepare_cached("UPDATE dead_letters SET hidden_until = ?2, shown = shown + 1 WHERE id = ?1")?;
    for (id, _) in &letters {
        hide.execute((id, until.as_millis()))?;
    }
    Ok(letters.into_iter().map(|(_, letter)| letter).collect())
}

pub(super) fn show(tx: &Tx<'_>, queue: i64, receipts: &[Receipt]) -> rusqlite::Result<()> {
    let mut show = tx.prepare_cached(
        "UPDATE dead_letters SET hidden_until = 0 WHERE queue = ?1 AND id = ?2 AND shown = ?3",
    )?;
    for (id, shown) in receipts.iter().filter_map(parts) {
        show.execute((queue, id, shown))?;
    }
    Ok(())
}

pub(super) fn forget(tx: &Tx<'_>, queue: i64, receipt: &Receipt) -> rusqlite::Result<()> {
    if let Some((id, shown)) = parts(receipt) {
        tx.prepare_cached("DELETE FROM dead_letters WHERE queue = ?1 AND id = ?2 AND shown = ?3")?
            .execute((queue, id, shown))?;
    }
    Ok(())
}

pub(super) fn depth(conn: &Connection, queue: i64) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT count(*) FROM dead_letters WHERE queue = ?1")?
        .query_row([queue], |row| row.get::<_, i64>(0))
        .map(i64::unsigned_abs)
}

/// Id of the letter, and number of its receive.
fn parts(receipt: &Receipt) -> Option<(i64, i64)> {
    let (id, shown) = receipt.0.split_once('-')?;
    Some((id.parse().ok()?, shown.parse().ok()?))
}
