use pilothouse_domain::Timestamp;
use pilothouse_sqlite::Tx;
use rusqlite::{OptionalExtension as _, Row};

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

/// The row of a key that is about to be written.
pub(super) struct StoredRow {
    pub(super) id: i64,
    pub(super) version: u64,
    pub(super) expires: Option<i64>,
    /// Whether the item that replaces it has the same places in all indexes.
    pub(super) keeps_places: bool,
}

impl StoredRow {
    /// One look-up serves the condition, the feed and the write.
    pub(super) fn find(tx: &Tx<'_>, key: &Key, replacement: Option<&Item>) -> rusqlite::Result<Option<Self>> {
        tx.prepare_cached("SELECT id, version, expires, lp, ls, dp, ds FROM items WHERE pk = ?1 AND sk = ?2")?
            .query_row((&key.partition, &key.sort), |row| {
                let expires: Option<i64> = row.get(2)?;
                let keeps_places = match replacement {
                    Some(item) => {
                        expires == expiry(item)
                            && is_at(row, 3, item.listing.as_ref())?
                            && is_at(row, 5, item.due.as_ref())?
                    }
                    None => false,
                };
                let version = row.get::<_, i64>(1)?.unsigned_abs();
                Ok(Self { id: row.get(0)?, version, expires, keeps_places })
            })
            .optional()
    }
}

pub(super) fn expiry(item: &Item) -> Option<i64> {
    item.expires_at.map(Timestamp::as_millis)
}

/// Whether the columns from `first` on contain `place`.
fn is_at(row: &Row<'_>, first: usize, place: Option<&Key>) -> rusqlite::Result<bool> {
    let partition = row.get_ref(first)?.as_str_or_null()?;
    let sort = row.get_ref(first + 1)?.as_str_or_null()?;
    Ok(partition.zip(sort) == place.map(|key| (key.partition.as_str(), key.sort.as_str())))
}
