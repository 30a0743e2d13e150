//! Items that most commands read, in memory: sessions with their queues, and pools with their lines.
//!
//! The items that are read one after another form a unit. A commit replaces all its items at once, when it is durable and before anyone
//! learns of it. From the write until then the unit is not read here. So a reader that found one item in the file never finds an older
//! item of the same unit here.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pilothouse_sqlite::Tx;

use super::Memory;
use crate::layout;
use crate::table::{
    Item, Key, MAX_PAGE_BYTES, ParsedBody, Position, Query, SharedItem, SharedPage, SortRange, Write,
};

/// Most bytes of the units that were written last. As many bytes of earlier ones are kept, too. 1,000 live sessions fit.
const MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(super) struct KeptItems(Mutex<Units>);

#[derive(Default)]
struct Units {
    last: HashMap<String, Unit>,
    bytes: usize,
    earlier: HashMap<String, Unit>,
    /// The number of commits of each unit that are not durable yet.
    unsettled: HashMap<String, usize>,
    next_stamp: u64,
}

#[derive(Default)]
struct Unit {
    /// By sort key.
    items: BTreeMap<String, Arc<SharedItem>>,
    bytes: usize,
    /// Whether the items contain the whole line of the pool.
    has_line: bool,
    /// Changes with each commit.
    stamp: u64,
}

/// What is known of a page.
pub(super) enum KeptPage {
    Known(SharedPage),
    /// Read it from the file. With a stamp, a whole line may be kept.
    Unknown(Option<u64>),
}

/// The memory of an item, of which its parsed value takes about half.
fn bytes_of(item: &SharedItem) -> usize {
    2 * item.item().size()
}

impl Unit {
    fn put(&mut self, item: Arc<SharedItem>) {
        self.bytes += bytes_of(&item);
        if let Some(replaced) = self.items.insert(item.item().key.sort.clone(), item) {
            self.bytes -= bytes_of(&replaced);
        }
    }

    fn remove(&mut self, sort: &str) {
        if let Some(removed) = self.items.remove(sort) {
            self.bytes -= bytes_of(&removed);
        }
    }

    fn line(&self, query: &Query) -> SharedPage {
        let after = query.after.as_ref().map(|position| position.sort.as_str());
        let first = after.map_or(Bound::Included(layout::POOL_LINE), Bound::Excluded);
        let line = self.items.range::<str, _>((first, Bound::Unbounded));
        let mut page = SharedPage::default();
        let mut bytes = 0;
        for (_, item) in line.take_while(|(sort, _)| sort.starts_with(layout::POOL_LINE)) {
            bytes += item.item().size();
            if page.items.len() == query.limit || (bytes > MAX_PAGE_BYTES && !page.items.is_empty()) {
                page.next = page.items.last().map(|last| {
                    let Key { partition, sort } = last.item().key.clone();
                    Position { partition, sort, index_sort: None }
                });
                break;
            }
            page.items.push(Arc::clone(item));
        }
        page
    }
}

impl Units {
    fn get(&self, unit: &str) -> Option<&Unit> {
        if self.unsettled.contains_key(unit) {
            return None;
        }
        self.last.get(unit).or_else(|| self.earlier.get(unit))
    }

    fn take(&mut self, unit: &str) -> Option<Unit> {
        if let Some(found) = self.last.remove(unit) {
            self.bytes -= found.bytes;
            return Some(found);
        }
        self.earlier.remove(unit)
    }

    fn add(&mut self, name: String, unit: Unit) {
        self.bytes += unit.bytes;
        self.last.insert(name, unit);
        if self.bytes > MAX_BYTES {
            self.earlier = std::mem::take(&mut self.last);
            self.bytes = 0;
        }
    }

    fn apply(&mut self, Change { unit: name, key, item }: Change) {
        // Nobody would remove an item that expires, and a line without it would not be whole.
        if item.as_ref().is_some_and(|item| item.item().expires_at.is_some()) {
            self.take(&name);
            return;
        }
        let is_line = key.sort.starts_with(layout::POOL_LINE);
        let unit = match self.take(&name) {
            Some(unit) => Some(unit),
            // A unit is complete only for the items that it contains, so a line needs the pool first.
            None if is_line || item.is_none() => None,
            None => Some(Unit::default()),
        };
        let Some(mut unit) = unit else { return };
        match item {
            Some(_) if is_line && !unit.has_line => {}
            Some(item) => unit.put(item),
            None => unit.remove(&key.sort),
        }
        self.next_stamp += 1;
        unit.stamp = self.next_stamp;
        self.add(name, unit);
    }
}

impl KeptItems {
    fn units(&self) -> MutexGuard<'_, Units> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, key: &Key) -> Option<Arc<SharedItem>> {
        let unit = layout::unit_of(key)?;
        self.units().get(&unit)?.items.get(&key.sort).cloned()
    }

    /// A page of the line of a pool, if the query asks for one and the line is known.
    pub(super) fn page(&self, query: &Query) -> KeptPage {
        let is_line = query.index.is_none()
            && !query.descending
            && query.range == SortRange::Prefix(layout::POOL_LINE.to_owned());
        if !is_line {
            return KeptPage::Unknown(None);
        }
        match self.units().get(&query.partition) {
            Some(unit) if unit.has_line => KeptPage::Known(unit.line(query)),
            Some(unit) if query.after.is_none() => KeptPage::Unknown(Some(unit.stamp)),
            Some(_) | None => KeptPage::Unknown(None),
        }
    }

    /// Keeps the whole line of a pool, which was read from the file after its stamp, unless a commit has changed the pool since.
    pub(super) fn keep_line(&self, partition: &str, stamp: u64, line: &[Arc<SharedItem>]) {
        let mut units = self.units();
        let Some(mut unit) = units.take(partition) else { return };
        let expires = |item: &Arc<SharedItem>| item.item().expires_at.is_some();
        if unit.stamp == stamp && !unit.has_line && !line.iter().any(expires) {
            for item in line {
                unit.put(Arc::clone(item));
            }
            unit.has_line = true;
        }
        units.add(partition.to_owned(), unit);
    }
}

/// The change of a kept item. Without an item it is removed.
struct Change {
    unit: String,
    key: Key,
    item: Option<Arc<SharedItem>>,
}

impl Change {
    fn of(write: &Write, values: &mut HashMap<Key, ParsedBody>) -> Option<Self> {
        match write {
            Write::Put(item, _) => Self::put(item, values.remove(&item.key)),
            Write::Delete(key, _) => Some(Self { unit: layout::unit_of(key)?, key: key.clone(), item: None }),
            Write::Check(..) => None,
        }
    }

    fn put(item: &Item, value: Option<ParsedBody>) -> Option<Self> {
        let unit = layout::unit_of(&item.key)?;
        let kept = Arc::new(SharedItem::with_value(item.clone(), value));
        Some(Self { unit, key: item.key.clone(), item: Some(kept) })
    }
}

/// The changes of a transaction that is not durable yet. Dropped without a commit, they are forgotten.
struct Unsettled {
    memory: Arc<Memory>,
    units: Vec<String>,
}

impl Unsettled {
    fn new(memory: Arc<Memory>, changes: &[Change]) -> Self {
        let mut units: Vec<String> = changes.iter().map(|change| change.unit.clone()).collect();
        units.sort_unstable();
        units.dedup();
        let mut all = memory.kept.units();
        for unit in &units {
            *all.unsettled.entry(unit.clone()).or_default() += 1;
        }
        drop(all);
        Self { memory, units }
    }

    fn apply(self, changes: Vec<Change>) {
        let mut units = self.memory.kept.units();
        for change in changes {
            units.apply(change);
        }
        // The drop of `self` takes the lock again.
        drop(units);
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        let mut all = self.memory.kept.units();
        for unit in &self.units {
            if let Some(commits) = all.unsettled.get_mut(unit) {
                *commits -= 1;
                if *commits == 0 {
                    all.unsettled.remove(unit);
                }
            }
        }
    }
}

/// Applies the writes of a transaction when it is durable. Call it inside the transaction.
pub(super) fn keep(
    tx: &Tx<'_>,
    memory: &Arc<Memory>,
    writes: &[Write],
    values: impl IntoIterator<Item = (Key, ParsedBody)>,
) {
    let mut values: HashMap<_, _> = values.into_iter().collect();
    keep_changes(tx, memory, writes.iter().filter_map(|write| Change::of(write, &mut values)).collect());
}

/// The same for an item that is put alone.
pub(super) fn keep_item(tx: &Tx<'_>, memory: &Arc<Memory>, item: &Item) {
    keep_changes(tx, memory, Change::put(item, None).into_iter().collect());
}

fn keep_changes(tx: &Tx<'_>, memory: &Arc<Memory>, changes: Vec<Change>) {
    if changes.is_empty() {
        return;
    }
    let unsettled = Unsettled::new(Arc::clone(memory), &changes);
    tx.on_commit(move || unsettled.apply(changes));
}
