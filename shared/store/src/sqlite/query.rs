use std::fmt::Write as _;

use rusqlite::{Connection, ToSql};

use super::row;
use crate::range::{Bounds, after_prefix};
use crate::table::{Index, Item, MAX_PAGE_BYTES, Page, Position, Query};

fn columns(index: Option<Index>) -> (&'static str, &'static str) {
    match index {
        None => ("pk", "sk"),
        Some(Index::Listing) => ("lp", "ls"),
        Some(Index::Due) => ("dp", "ds"),
    }
}

/// Reads one page of items that have not expired at `now`.
pub(super) fn page(conn: &Connection, query: &Query, now: i64) -> rusqlite::Result<Page> {
    let bounds = Bounds::of(&query.range);
    if bounds == Bounds::Empty {
        return Ok(Page::default());
    }
    let (partition, sort) = columns(query.index);
    let mut sql = format!(
        "SELECT pk, sk, kind, version, expires, lp, ls, dp, ds, body FROM items \
         WHERE {partition} = ? AND (expires IS NULL OR expires > ?)"
    );
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(query.partition.clone()), Box::new(now)];
    let mut bound = |comparison: &str, value: String| {
        sql.push_str(" AND ");
        sql.push_str(sort);
        sql.push_str(comparison);
        values.push(Box::new(value));
    };
    match bounds {
        Bounds::Empty | Bounds::All => {}
        Bounds::Prefix(prefix) => {
            if let Some(end) = after_prefix(&prefix) {
                bound(" < ?", end);
            }
            bound(" >= ?", prefix);
        }
        Bounds::Between(from, to) => {
            bound(" >= ?", from);
            bound(" <= ?", to);
        }
    }
    // Writing to a string cannot fail.
    let (beyond, order) = if query.descending { ("<", "DESC") } else { (">", "ASC") };
    if let Some(after) = &query.after {
        match &after.index_sort {
            None => {
                let _ = write!(sql, " AND sk {beyond} ?");
                values.push(Box::new(after.sort.clone()));
            }
            Some(index_sort) => {
                let _ = write!(sql, " AND ({sort}, pk, sk) {beyond} (?, ?, ?)");
                values.push(Box::new(index_sort.clone()));
                values.push(Box::new(after.partition.clone()));
                values.push(Box::new(after.sort.clone()));
            }
        }
    }
    if query.index.is_none() {
        let _ = write!(sql, " ORDER BY sk {order} LIMIT ?");
    } else {
        let _ = write!(sql, " ORDER BY {sort} {order}, pk {order}, sk {order} LIMIT ?");
    }
    values.push(Box::new(limit));

    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map(rusqlite::params_from_iter(values), row::item)?;
    let mut page = Page::default();
    let mut bytes = 0;
    for item in rows {
        let item = item?;
        bytes += item.size();
        if page.items.len() == query.limit || (bytes > MAX_PAGE_BYTES && !page.items.is_empty()) {
            page.next = page.items.last().map(|last| position(last, query.index));
            break;
        }
        page.items.push(item);
    }
    Ok(page)
}

fn position(item: &Item, index: Option<Index>) -> Position {
    let index_key = match index {
        None => None,
        Some(Index::Listing) => item.listing.as_ref(),
        Some(Index::Due) => item.due.as_ref(),
    };
    Position {
        partition: item.key.partition.clone(),
        sort: item.key.sort.clone(),
        index_sort: index_key.map(|key| key.sort.clone()),
    }
}
