//! Usage of an engine in DynamoDB's billing units, whichever engine it is.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::Item;

#[derive(Debug, Default)]
pub struct Usage {
    transactions: AtomicU64,
    items_written: AtomicU64,
    bytes_written: AtomicU64,
    write_units: AtomicU64,
    reads: AtomicU64,
    items_read: AtomicU64,
    bytes_read: AtomicU64,
    read_half_units: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsageSnapshot {
    /// Committed transactions, including single writes.
    pub transactions: u64,
    /// Items that were put or deleted.
    pub items_written: u64,
    /// Bytes of items that were put.
    pub bytes_written: u64,
    /// Write request units: one for each started KiB of an item, and as many for each index that contains it. A transaction of
    /// several writes counts double for the table.
    pub write_units: u64,
    /// Gets and pages of queries.
    pub reads: u64,
    pub items_read: u64,
    pub bytes_read: u64,
    /// Half read request units: two for each started 4 KiB of a consistent read, one of an index read.
    pub read_half_units: u64,
}

fn add(counter: &AtomicU64, n: usize) {
    counter.fetch_add(n as u64, Ordering::Relaxed);
}

impl Usage {
    pub fn snapshot(&self) -> UsageSnapshot {
        let now = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        UsageSnapshot {
            transactions: now(&self.transactions),
            items_written: now(&self.items_written),
            bytes_written: now(&self.bytes_written),
            write_units: now(&self.write_units),
            reads: now(&self.reads),
            items_read: now(&self.items_read),
            bytes_read: now(&self.bytes_read),
            read_half_units: now(&self.read_half_units),
        }
    }

    pub(crate) fn wrote(&self, writes: &[Written]) {
        let factor = if writes.len() > 1 { 2 } else { 1 };
        add(&self.transactions, 1);
        for write in writes {
            let units = write.bytes.div_ceil(1024).max(1);
            add(&self.write_units, units * (factor + write.indexes));
            if !write.check_only {
                add(&self.items_written, 1);
                add(&self.bytes_written, write.bytes);
            }
        }
    }

    pub(crate) fn put_alone(&self, items: &[Written]) {
        for item in items {
            self.wrote(std::slice::from_ref(item));
        }
    }

    pub(crate) fn read<'a>(&self, items: impl IntoIterator<Item = &'a Item>, consistent: bool) {
        let (mut count, mut bytes) = (0, 0);
        for item in items {
            count += 1;
            bytes += item.size();
        }
        add(&self.reads, 1);
        add(&self.items_read, count);
        add(&self.bytes_read, bytes);
        add(&self.read_half_units, bytes.div_ceil(4096).max(1) * if consistent { 2 } else { 1 });
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    bytes: usize,
    indexes: usize,
    check_only: bool,
}

impl Written {
    pub(crate) fn put(item: &Item) -> Self {
        let indexes = usize::from(item.listing.is_some()) + usize::from(item.due.is_some());
        Self { bytes: item.size(), indexes, check_only: false }
    }

    pub(crate) fn of(write: &crate::table::Write) -> Self {
        match write {
            crate::table::Write::Put(item, _) => Self::put(item),
            crate::table::Write::Delete(..) => Self { bytes: 0, indexes: 0, check_only: false },
            crate::table::Write::Check(..) => Self { bytes: 0, indexes: 0, check_only: true },
        }
    }
}
