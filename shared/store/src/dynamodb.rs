//! The engine of the `aws` profile: a DynamoDB table with two indexes.
//!
//! Attributes: `pk`, `sk` key; `k` kind; `v` version; `b` body, or `p` packed body (`z`: packed in the former format, without a
//! dictionary); `x` expiry in seconds for DynamoDB's own deletion, rounded up so that nothing is deleted early; `xm` expiry in
//! milliseconds, by which this engine filters; `l1p`, `l1s` and `d1p`, `d1s` the keys of the indexes `listing` and `due`. The
//! indexes contain keys only: with bodies, each change of a body would be billed for the index as well, although lists are read far
//! less often than their items are written.
//!
//! If the client retries a single write after losing the response, the retry may fail with `ConditionFailed` although the write
//! succeeded. Callers read again after that error, as they have to in any case. Transactions carry a token that prevents this.

mod attributes;
mod errors;
pub mod image;
mod named;
mod packing;
mod request;
mod setup;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{KeysAndAttributes, PutRequest, WriteRequest};
use pilothouse_sqlite::Clock;

use attributes::Attributes;
use named::Named;

use crate::limits;
use crate::range::Bounds;
use crate::table::{Condition, Item, Key, MAX_PAGE_BYTES, Page, Position, Query, Table, TableError, Write};
use crate::usage::{Usage, Written};

/// Items of one batch request (DynamoDB).
const BATCH: usize = 25;
/// Items of an index that are read at once.
const INDEX_FETCH_BATCH: usize = 25;
/// Attempts for a batch that the table accepts only in part.
const MAX_BATCH_ATTEMPTS: u32 = 8;
/// Pause before the first retry; it doubles for each further one.
const BATCH_PAUSE: Duration = Duration::from_millis(25);

/// Clones share the same table.
#[derive(Clone)]
pub struct DynamoTable {
    client: Client,
    name: Arc<str>,
    clock: Clock,
    usage: Arc<Usage>,
}

impl DynamoTable {
    /// The client configures region, credentials, timeouts and a dated behavior version.
    pub fn new(client: Client, name: &str, clock: Clock) -> Self {
        Self { client, name: name.into(), clock, usage: Arc::default() }
    }

    /// Usage since this value was created, computed from the sizes of the items.
    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    async fn read(&self, key: &Key) -> Result<Option<Item>, TableError> {
        let output = self
            .client
            .get_item()
            .table_name(&*self.name)
            .set_key(Some(attributes::key(key)))
            .consistent_read(true)
            .send()
            .await
            .map_err(errors::engine)?;
        let item = output.item.map(attributes::item).transpose()?.filter(|item| !self.is_expired(item));
        self.usage.read(item.as_slice(), true);
        Ok(item)
    }

    fn is_expired(&self, item: &Item) -> bool {
        item.expires_at.is_some_and(|at| at <= (self.clock)())
    }

    /// Writes a single item. As a transaction it would cost twice as much.
    async fn write_one(&self, write: Write) -> Result<(), TableError> {
        let now = (self.clock)();
        match write {
            Write::Put(item, condition) => {
                let expression = request::condition(condition, now);
                self.client
                    .put_item()
                    .table_name(&*self.name)
                    .set_item(Some(attributes::attributes(item)))
                    .set_condition_expression(expression.text)
                    .set_expression_attribute_values(expression.values)
                    .send()
                    .await
                    .map(drop)
                    .map_err(errors::single)
            }
            Write::Delete(key, condition) => {
                let expression = request::condition(condition, now);
                self.client
                    .delete_item()
                    .table_name(&*self.name)
                    .set_key(Some(attributes::key(&key)))
                    .set_condition_expression(expression.text)
                    .set_expression_attribute_values(expression.values)
                    .send()
                    .await
                    .map(drop)
                    .map_err(errors::single)
            }
            Write::Check(key, condition) => {
                let there = self.read(&key).await?;
                let holds = match condition {
                    Condition::Always => true,
                    Condition::Absent => there.is_none(),
                    Condition::Version(version) => there.is_some_and(|item| item.version == version),
                };
                if holds { Ok(()) } else { Err(TableError::ConditionFailed { writes: vec![0] }) }
            }
        }
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<(), TableError> {
        let now = (self.clock)();
        let mut items = Vec::with_capacity(writes.len());
        // DynamoDB has no unconditional check. The other writes keep their positions.
        let mut positions = Vec::with_capacity(writes.len());
        for (position, write) in writes.into_iter().enumerate() {
            if let Some(item) = request::transact_item(&self.name, write, now)? {
                items.push(item);
                positions.push(position);
            }
        }
        if items.is_empty() {
            return Ok(());
        }
        let sent = self.client.transact_write_items().set_transact_items(Some(items)).send().await;
        sent.map(drop).map_err(|error| errors::transaction(error, &positions))
    }

    /// Reads the items that an index lists, in its order, up to the size of a page. Also returns the position if the size ended the
    /// page. Items that were deleted or left the index are skipped.
    async fn fetch(
        &self,
        query: &Query,
        named: Vec<Attributes>,
    ) -> Result<(Vec<Item>, Option<Position>), TableError> {
        let mut items = Vec::with_capacity(named.len());
        let mut bytes = 0;
        let count = named.len();
        let mut seen = 0;
        for batch in named.chunks(INDEX_FETCH_BATCH) {
            let Named { keys, places } = named::read(query.index, batch)?;
            let mut found = self.get_batch(keys).await?;
            for (key, at) in places {
                seen += 1;
                let listed = found.get(&key).is_some_and(|item| named::is_listed(query, item, &at));
                let Some(item) = listed.then(|| found.remove(&key)).flatten() else {
                    continue;
                };
                bytes += item.size();
                items.push(item);
                if bytes >= MAX_PAGE_BYTES && seen < count {
                    return Ok((items, Some(at)));
                }
            }
        }
        Ok((items, None))
    }

    /// Reads up to 100 items. Retries those that the table left out.
    async fn get_batch(&self, mut keys: Vec<Attributes>) -> Result<HashMap<Key, Item>, TableError> {
        let mut found = HashMap::with_capacity(keys.len());
        let mut pause = BATCH_PAUSE;
        for _ in 0..MAX_BATCH_ATTEMPTS {
            let asked = KeysAndAttributes::builder().set_keys(Some(keys)).build().map_err(errors::engine)?;
            let output = self
                .client
                .batch_get_item()
                .request_items(&*self.name, asked)
                .send()
                .await
                .map_err(errors::engine)?;
            let items =
                output.responses.and_then(|mut tables| tables.remove(&*self.name)).unwrap_or_default();
            for item in items {
                let item = attributes::item(item)?;
                found.insert(item.key.clone(), item);
            }
            let left = output.unprocessed_keys.and_then(|mut tables| tables.remove(&*self.name));
            keys = left.map(|left| left.keys).unwrap_or_default();
            if keys.is_empty() {
                return Ok(found);
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Err(TableError::Throttled)
    }

    /// Puts up to 25 items. Retries those that the table left out.
    async fn put_batch(&self, items: Vec<Item>) -> Result<(), TableError> {
        let mut left = Vec::with_capacity(items.len());
        for item in items {
            let put = PutRequest::builder().set_item(Some(attributes::attributes(item)));
            left.push(WriteRequest::builder().put_request(put.build().map_err(errors::engine)?).build());
        }
        let mut pause = BATCH_PAUSE;
        for _ in 0..MAX_BATCH_ATTEMPTS {
            let output = self
                .client
                .batch_write_item()
                .request_items(&*self.name, left)
                .send()
                .await
                .map_err(errors::engine)?;
            left = output
                .unprocessed_items
                .and_then(|mut tables| tables.remove(&*self.name))
                .unwrap_or_default();
            if left.is_empty() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
        Err(TableError::Throttled)
    }
}

/// Size by which `DynamoDB` bills an item: names and values of its attributes as they are stored.
pub fn stored_bytes(item: &Item) -> usize {
    attributes::bytes(&attributes::attributes(item.clone()))
}

#[async_trait]
impl Table for DynamoTable {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        limits::check_key(key)?;
        self.read(key).await
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        limits::check_query(query)?;
        let bounds = Bounds::of(&query.range);
        if bounds == Bounds::Empty {
            return Ok(Page::default());
        }
        let expression = request::key_condition(query, bounds);
        let output = self
            .client
            .query()
            .table_name(&*self.name)
            .set_index_name(query.index.map(|index| attributes::index_name(index).to_owned()))
            .consistent_read(query.index.is_none())
            .set_key_condition_expression(expression.text)
            .set_expression_attribute_values(expression.values)
            .scan_index_forward(!query.descending)
            .limit(i32::try_from(query.limit).unwrap_or(i32::MAX))
            .set_exclusive_start_key(query.after.as_ref().map(|after| attributes::start_key(query, after)))
            .send()
            .await
            .map_err(errors::engine)?;
        let mut next =
            output.last_evaluated_key.map(|key| attributes::position(query.index, key)).transpose()?;
        let found = output.items.unwrap_or_default();
        let items: Vec<Item> = if query.index.is_some() {
            let (items, stopped) = self.fetch(query, found).await?;
            next = stopped.or(next);
            items
        } else {
            found.into_iter().map(attributes::item).collect::<Result<_, _>>()?
        };
        self.usage.read(&items, query.index.is_none());
        Ok(Page { items: items.into_iter().filter(|item| !self.is_expired(item)).collect(), next })
    }

    async fn transact(&self, mut writes: Vec<Write>) -> Result<(), TableError> {
        limits::check_transaction(&writes)?;
        let written: Vec<_> = writes.iter().map(Written::of).collect();
        match (writes.pop(), writes.is_empty()) {
            (None, _) => return Ok(()),
            (Some(only), true) => self.write_one(only).await?,
            (Some(last), false) => {
                writes.push(last);
                self.write_many(writes).await?;
            }
        }
        self.usage.wrote(&written);
        Ok(())
    }

    async fn put_all(&self, mut items: Vec<Item>) -> Result<(), TableError> {
        limits::check_items(&items)?;
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(BATCH));
            let batch = std::mem::replace(&mut items, rest);
            let written: Vec<_> = batch.iter().map(Written::put).collect();
            self.put_batch(batch).await?;
            self.usage.put_alone(&written);
        }
        Ok(())
    }
}
