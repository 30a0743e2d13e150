//! Limits that both engines check before a request, so that a request works on both or on neither.

use std::collections::HashSet;

use crate::table::{
    Item, Key, MAX_ITEM_BYTES, MAX_TRANSACTION_BYTES, MAX_TRANSACTION_WRITES, Position, Query, TableError,
    Write,
};

const MAX_PARTITION_BYTES: usize = 2048;
const MAX_SORT_BYTES: usize = 1024;

fn invalid(why: impl Into<String>) -> TableError {
    TableError::Invalid(why.into())
}

pub(crate) fn check_key(key: &Key) -> Result<(), TableError> {
    if !(1..=MAX_PARTITION_BYTES).contains(&key.partition.len()) {
        return Err(invalid("a partition key has 1 to 2048 bytes"));
    }
    if !(1..=MAX_SORT_BYTES).contains(&key.sort.len()) {
        return Err(invalid("a sort key has 1 to 1024 bytes"));
    }
    Ok(())
}

fn check_item(item: &Item) -> Result<(), TableError> {
    for key in [Some(&item.key), item.listing.as_ref(), item.due.as_ref()].into_iter().flatten() {
        check_key(key)?;
    }
    if item.size() > MAX_ITEM_BYTES {
        return Err(invalid(format!("an item of {} bytes; the limit is {MAX_ITEM_BYTES}", item.size())));
    }
    if i64::try_from(item.version).is_err() {
        return Err(invalid("a version beyond 63 bits"));
    }
    Ok(())
}

fn check_distinct<'a>(keys: impl Iterator<Item = &'a Key>) -> Result<(), TableError> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            return Err(invalid(format!("two writes of the item `{} {}`", key.partition, key.sort)));
        }
    }
    Ok(())
}

pub(crate) fn check_transaction(writes: &[Write]) -> Result<(), TableError> {
    if writes.len() > MAX_TRANSACTION_WRITES {
        return Err(invalid(format!("{} writes; the limit is {MAX_TRANSACTION_WRITES}", writes.len())));
    }
    let mut bytes = 0;
    for write in writes {
        match write {
            Write::Put(item, _) => {
                check_item(item)?;
                bytes += item.size();
            }
            Write::Delete(key, _) | Write::Check(key, _) => {
                check_key(key)?;
                bytes += key.partition.len() + key.sort.len();
            }
        }
    }
    if bytes > MAX_TRANSACTION_BYTES {
        return Err(invalid(format!("a transaction of {bytes} bytes; the limit is {MAX_TRANSACTION_BYTES}")));
    }
    check_distinct(writes.iter().map(Write::key))
}

pub(crate) fn check_items(items: &[Item]) -> Result<(), TableError> {
    items.iter().try_for_each(check_item)?;
    check_distinct(items.iter().map(|item| &item.key))
}

pub(crate) fn check_query(query: &Query) -> Result<(), TableError> {
    if query.limit == 0 {
        return Err(invalid("the limit of a page must be at least 1"));
    }
    if !(1..=MAX_PARTITION_BYTES).contains(&query.partition.len()) {
        return Err(invalid("a partition key has 1 to 2048 bytes"));
    }
    let Some(Position { partition, sort, index_sort }) = &query.after else { return Ok(()) };
    let fits = if query.index.is_some() {
        index_sort.as_ref().is_some_and(|sort| (1..=MAX_SORT_BYTES).contains(&sort.len()))
    } else {
        index_sort.is_none() && *partition == query.partition
    };
    if !fits {
        return Err(invalid("a position of another list"));
    }
    check_key(&Key { partition: partition.clone(), sort: sort.clone() })
}
