use pilothouse_domain::Timestamp;
use rusqlite::Row;

use crate::table::{Item, Key};

pub(super) const GET: &str = "SELECT pk, sk, kind, version, expires, lp, ls, dp, ds, body FROM items \
     WHERE pk = ?1 AND sk = ?2 AND (expires IS NULL OR expires > ?3)";

/// The item of a row with the columns of [`GET`].
pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    Ok(Item {
        key: Key { partition: row.get(0)?, sort: row.get(1)? },
        kind: row.get(2)?,
        version: row.get::<_, i64>(3)?.unsigned_abs(),
        expires_at: row.get::<_, Option<i64>>(4)?.map(Timestamp::from_millis),
        listing: key(row.get(5)?, row.get(6)?),
        due: key(row.get(7)?, row.get(8)?),
        body: row.get(9)?,
    })
}

fn key(partition: Option<String>, sort: Option<String>) -> Option<Key> {
    Some(Key { partition: partition?, sort: sort? })
}
