//! Computes what `DynamoDB` bills under its published rules, for two designs at once.
//!
//! - *current*: a transaction writes the aggregate and its journal entries; each item costs twice its units
//! - *one write*: a single conditional write stores the aggregate with its new events, and the reader of the stream writes the journal.
//!   Only possible where no other item is guarded: a queue, a pool or an idempotency record still needs the transaction, without the journal
//!   entries
//!
//! A write costs one unit for each started KiB of the larger of the old and the new item. An index entry costs one unit when it is
//! added or removed, two when it moves, and none when it stays.

use std::collections::{BTreeMap, HashMap};

use pilothouse_store::dynamodb::stored_bytes;
use pilothouse_store::table::{Condition, Item, Key, Write};

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bill {
    /// Write request units of the current design.
    pub(crate) write_units: u64,
    /// Write request units with one write for aggregate and events.
    pub(crate) one_write_units: u64,
    /// Half read request units.
    pub(crate) read_half_units: u64,
    pub(crate) commits: u64,
    pub(crate) reads: u64,
    /// Written, deleted or checked items.
    pub(crate) writes: u64,
    /// Bytes of the bodies that were put, as JSON.
    pub(crate) bytes: u64,
}

impl Bill {
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            write_units: self.write_units - earlier.write_units,
            one_write_units: self.one_write_units - earlier.one_write_units,
            read_half_units: self.read_half_units - earlier.read_half_units,
            commits: self.commits - earlier.commits,
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(crate) struct Kind {
    pub(crate) puts: u64,
    /// Bytes of the bodies as JSON.
    pub(crate) body: usize,
    /// Bytes of the stored items, with keys.
    pub(crate) stored: usize,
    /// The sum of their write units outside a transaction.
    pub(crate) units: u64,
    /// Sample bodies: one in `EACH`.
    pub(crate) samples: Vec<String>,
}

/// A write, deletion or check of an item.
#[derive(Debug, Clone)]
pub(crate) struct Touched {
    pub(crate) key: Key,
    /// The transaction fails if another one wrote the item since it was read.
    pub(crate) conditioned: bool,
}

/// One of this many bodies is kept as a sample.
const EACH: u64 = 7;

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) bill: Bill,
    pub(crate) kinds: BTreeMap<String, Kind>,
    pub(crate) touched: Vec<Touched>,
    places: HashMap<Key, Standing>,
}

/// The stored size and the index keys of an item.
struct Standing {
    bytes: usize,
    listing: Option<Key>,
    due: Option<Key>,
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

impl Ledger {
    /// Returns the write units of the item outside a transaction, and those of its index entries.
    pub(crate) fn put(&mut self, item: &Item, with: usize) -> (u64, u64) {
        let bytes = stored_bytes(item);
        let kind = self.kinds.entry(item.kind.clone()).or_default();
        if kind.puts.is_multiple_of(EACH) {
            kind.samples.push(item.body.clone());
        }
        kind.puts += 1;
        self.bill.bytes += item.body.len() as u64;
        kind.body += item.body.len();
        kind.stored += bytes;
        kind.units += units(bytes);
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

    pub(crate) fn committed(&mut self, writes: &[Write]) {
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
            let condition = match write {
                Write::Put(_, condition) | Write::Delete(_, condition) | Write::Check(_, condition) => {
                    condition
                }
            };
            self.touch(write.key(), *condition != Condition::Always);
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
        self.bill.writes += writes.len() as u64;
    }

    fn touch(&mut self, key: &Key, conditioned: bool) {
        self.touched.push(Touched { key: key.clone(), conditioned });
    }

    /// Records a get or a page of a query.
    pub(crate) fn read(&mut self, items: &[Item], consistent: bool) {
        self.bill.reads += 1;
        let bytes: usize = items.iter().map(stored_bytes).sum();
        self.bill.read_half_units += bytes.div_ceil(4096).max(1) as u64 * if consistent { 2 } else { 1 };
    }

    /// Records items that were put individually.
    pub(crate) fn put_alone(&mut self, items: &[Item]) {
        for item in items {
            self.touch(&item.key, false);
            let (units, indexes) = self.put(item, 0);
            self.bill.write_units += units + indexes;
            self.bill.one_write_units += units + indexes;
            self.bill.writes += 1;
        }
    }
}
