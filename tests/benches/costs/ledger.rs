//! What `DynamoDB` would bill, by its published rules, for two designs at once.
//!
//! - *as it is*: aggregate and journal entries in one transaction, each item at twice its units;
//! - *one write*: the aggregate carries its new events in a single conditional write, and the reader of the stream writes
//!   the journal. Only where nothing else is guarded: a queue, a pool or an idempotency record still needs the
//!   transaction, without the entries.
//!
//! Units of a write are the KiB begun of the larger of the item before and after. An index of keys costs a unit for an
//! entry that comes or goes, two for one that moves, nothing for one that stays.

use std::collections::{BTreeMap, HashMap};

use pilothouse_store::dynamodb::stored_bytes;
use pilothouse_store::table::{Item, Key, Write};

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

/// What was put of one kind of item.
#[derive(Debug, Default, Clone)]
pub(crate) struct Kind {
    /// How many.
    pub(crate) puts: u64,
    /// Bytes of their bodies as JSON.
    pub(crate) body: usize,
    /// Bytes of them as they are stored, with keys.
    pub(crate) stored: usize,
    /// Units of each, as a write outside a transaction.
    pub(crate) units: u64,
    /// Bodies, one in `EACH`, for who wants to see them.
    pub(crate) samples: Vec<String>,
}

/// One body in so many is kept.
const EACH: u64 = 7;

/// The books.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What was billed so far.
    pub(crate) bill: Bill,
    /// What was put, by kind.
    pub(crate) kinds: BTreeMap<String, Kind>,
    places: HashMap<Key, Standing>,
}

/// An item as it stands.
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
    /// Units of one item as a write outside a transaction, and units of its index entries.
    pub(crate) fn put(&mut self, item: &Item, with: usize) -> (u64, u64) {
        let bytes = stored_bytes(item);
        let kind = self.kinds.entry(item.kind.clone()).or_default();
        if kind.puts.is_multiple_of(EACH) {
            kind.samples.push(item.body.clone());
        }
        kind.puts += 1;
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

    /// A transaction, or a write by itself.
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

    /// A get or a page.
    pub(crate) fn read(&mut self, items: &[Item], consistent: bool) {
        let bytes: usize = items.iter().map(stored_bytes).sum();
        self.bill.read_half_units += bytes.div_ceil(4096).max(1) as u64 * if consistent { 2 } else { 1 };
    }

    /// Items that were put each for itself.
    pub(crate) fn put_alone(&mut self, items: &[Item]) {
        for item in items {
            let (units, indexes) = self.put(item, 0);
            self.bill.write_units += units + indexes;
            self.bill.one_write_units += units + indexes;
        }
    }
}
