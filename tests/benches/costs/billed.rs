//! A table that works out what `DynamoDB` would bill, by its published rules, for two designs at once.
//!
//! - *as it is*: aggregate and journal entries in one transaction, each item at twice its units;
//! - *one write*: the aggregate carries its new events in a single conditional write, and the reader of the stream writes
//!   the journal. Only where nothing else is guarded: a queue, a pool or an idempotency record still needs the
//!   transaction, without the entries.
//!
//! Units of a write are the KiB begun of the larger of the item before and after. An index of keys costs a unit for an
//! entry that comes or goes, two for one that moves, nothing for one that stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use pilothouse_store::dynamodb::stored_bytes;
use pilothouse_store::table::{Item, Key, Page, Query, Table, TableError, Write};

/// What was billed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bill {
    /// Write request units as it is.
    pub(crate) write_units: u64,
    /// Write request units with one write for aggregate and events.
    pub(crate) one_write_units: u64,
    /// Halves of read request units.
    pub(crate) read_half_units: u64,
    /// Commits.
    pub(crate) commits: u64,
}

#[derive(Default)]
struct Ledger {
    bill: Bill,
    places: HashMap<Key, Standing>,
}

/// An item as it stands.
struct Standing {
    bytes: usize,
    listing: Option<Key>,
    due: Option<Key>,
}

/// The table with its bill. Clones are the same.
#[derive(Clone)]
pub(crate) struct Billed {
    inner: Arc<dyn Table>,
    ledger: Arc<Mutex<Ledger>>,
}

fn units(bytes: usize) -> u64 {
    bytes.div_ceil(1024).max(1) as u64
}

fn moved(before: Option<&Key>, after: Option<&Key>) -> u64 {
    match (before, after) {
        (Some(before), Some(after)) if before == after => 0,
        (Some(_), Some(_)) => 2,
        (None, None) => 0,
        _ => 1,
    }
}

impl Billed {
    pub(crate) fn new(inner: Arc<dyn Table>) -> Self {
        Self { inner, ledger: Arc::default() }
    }

    pub(crate) fn bill(&self) -> Bill {
        self.ledger.lock().unwrap().bill
    }
}

impl Ledger {
    /// Units of one item as a write outside a transaction, and units of its index entries.
    fn put(&mut self, item: &Item, with: usize) -> (u64, u64) {
        let bytes = stored_bytes(item);
        let now = Standing { bytes, listing: item.listing.clone(), due: item.due.clone() };
        let before = self.places.insert(item.key.clone(), now);
        let was = before.as_ref().map_or(0, |b| b.bytes);
        let indexes = moved(before.as_ref().and_then(|b| b.listing.as_ref()), item.listing.as_ref())
            + moved(before.as_ref().and_then(|b| b.due.as_ref()), item.due.as_ref());
        (units((bytes + with).max(was)), indexes)
    }

    fn delete(&mut self, key: &Key) -> (u64, u64) {
        let before = self.places.remove(key);
        let was = before.as_ref().map_or(0, |b| b.bytes);
        let left = |place: Option<&Key>| moved(place, None);
        let indexes = left(before.as_ref().and_then(|b| b.listing.as_ref()))
            + left(before.as_ref().and_then(|b| b.due.as_ref()));
        (units(was), indexes)
    }

    fn committed(&mut self, writes: &[Write]) {
        let is_entry = |write: &Write| matches!(write, Write::Put(item, _) if item.kind == "journal");
        let carrying = |session: &Item| {
            let mut whole = session.clone();
            for write in writes.iter().filter(|write| is_entry(write)) {
                if let Write::Put(entry, _) = write {
                    whole.body.push_str(&entry.body);
                }
            }
            stored_bytes(&whole) - stored_bytes(session)
        };
        let guarded = writes.iter().filter(|write| !is_entry(write)).count();
        let (factor, alone) = (if writes.len() > 1 { 2 } else { 1 }, if guarded > 1 { 2 } else { 1 });
        for write in writes {
            let (one, two) = match write {
                Write::Put(item, _) if is_entry(write) => {
                    let (put, indexes) = self.put(item, 0);
                    (factor * put + indexes, put + indexes)
                }
                Write::Put(item, _) => {
                    let with = if item.kind == "session" { carrying(item) } else { 0 };
                    let was = self.places.get(&item.key).map_or(0, |standing| standing.bytes);
                    let (carrying, indexes) = self.put(item, with);
                    let plain = units(stored_bytes(item).max(was));
                    (factor * plain + indexes, alone * carrying + indexes)
                }
                Write::Delete(key, _) => {
                    let (units, indexes) = self.delete(key);
                    (factor * units + indexes, alone * units + indexes)
                }
                Write::Check(..) => (factor, alone),
            };
            self.bill.write_units += one;
            self.bill.one_write_units += two;
        }
        self.bill.commits += 1;
    }

    fn read(&mut self, items: &[Item], consistent: bool) {
        let bytes: usize = items.iter().map(stored_bytes).sum();
        self.bill.read_half_units += bytes.div_ceil(4096).max(1) as u64 * if consistent { 2 } else { 1 };
    }
}

#[async_trait]
impl Table for Billed {
    async fn get(&self, key: &Key) -> Result<Option<Item>, TableError> {
        let item = self.inner.get(key).await?;
        self.ledger.lock().unwrap().read(item.as_slice(), true);
        Ok(item)
    }

    async fn query(&self, query: &Query) -> Result<Page, TableError> {
        let page = self.inner.query(query).await?;
        let mut ledger = self.ledger.lock().unwrap();
        if query.index.is_some() {
            // The keys, and then each item for itself.
            ledger.read(&[], false);
            page.items.iter().for_each(|item| ledger.read(std::slice::from_ref(item), false));
        } else {
            ledger.read(&page.items, true);
        }
        drop(ledger);
        Ok(page)
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<(), TableError> {
        self.inner.transact(writes.clone()).await?;
        self.ledger.lock().unwrap().committed(&writes);
        Ok(())
    }

    async fn put_all(&self, items: Vec<Item>) -> Result<(), TableError> {
        self.inner.put_all(items.clone()).await?;
        let mut ledger = self.ledger.lock().unwrap();
        for item in &items {
            let (units, indexes) = ledger.put(item, 0);
            ledger.bill.write_units += units + indexes;
            ledger.bill.one_write_units += units + indexes;
        }
        Ok(())
    }
}
