//! The last entries of the feed, in memory: the relay follows commits closely, and need not read its entries from the file.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::table::Item;

/// Most entries, and most bytes of their items.
const MAX_ENTRIES: usize = 1000;
const MAX_BYTES: usize = 512 * 1024;

#[derive(Default)]
pub(super) struct RecentEntries(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// All entries of the feed after this number are in `last`. `None` until the first commit.
    after: Option<u64>,
    last: VecDeque<(u64, Item)>,
    bytes: usize,
}

impl Entries {
    fn forget_first(&mut self) {
        if let Some((number, item)) = self.last.pop_front() {
            self.bytes -= item.size();
            self.after = Some(number);
        }
    }
}

impl RecentEntries {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a committed entry. Entries are added in the order of their numbers.
    pub(super) fn add(&self, number: u64, item: Item) {
        let mut entries = self.entries();
        entries.after.get_or_insert(number.saturating_sub(1));
        entries.bytes += item.size();
        entries.last.push_back((number, item));
        while entries.last.len() > MAX_ENTRIES || entries.bytes > MAX_BYTES {
            entries.forget_first();
        }
    }

    /// Forgets the entries up to `through`.
    pub(super) fn trim(&self, through: u64) {
        let mut entries = self.entries();
        while entries.last.front().is_some_and(|(number, _)| *number <= through) {
            entries.forget_first();
        }
    }

    /// The first `limit` entries after `after` that have not expired at `now`. `None` if some of them may be missing here.
    pub(super) fn after(&self, after: u64, limit: usize, now: i64) -> Option<Vec<(u64, Item)>> {
        let entries = self.entries();
        if entries.after.is_none_or(|first| after < first) {
            return None;
        }
        let first = entries.last.partition_point(|(number, _)| *number <= after);
        let later = entries.last.range(first..);
        let valid = later.filter(|(_, item)| item.expires_at.is_none_or(|at| at.as_millis() > now));
        Some(valid.take(limit).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Key;

    fn item(body: &str) -> Item {
        Item {
            key: Key::new("p", "s"),
            kind: "journal".to_owned(),
            version: 0,
            listing: None,
            due: None,
            expires_at: None,
            body: body.to_owned(),
        }
    }

    fn numbers(entries: &RecentEntries, after: u64, limit: usize) -> Option<Vec<u64>> {
        let found = entries.after(after, limit, 0)?;
        Some(found.into_iter().map(|(number, _)| number).collect())
    }

    #[test]
    fn entries_after_a_known_number_are_returned_in_order() {
        let entries = RecentEntries::default();
        assert_eq!(numbers(&entries, 0, 10), None, "nothing is known before the first commit");
        for number in [7, 8, 11] {
            entries.add(number, item("{}"));
        }
        assert_eq!(numbers(&entries, 5, 10), None, "6 may be in the file");
        assert_eq!(numbers(&entries, 6, 10), Some(vec![7, 8, 11]));
        assert_eq!(numbers(&entries, 7, 1), Some(vec![8]));
        assert_eq!(numbers(&entries, 11, 10), Some(vec![]));
        entries.trim(8);
        assert_eq!(numbers(&entries, 7, 10), None);
        assert_eq!(numbers(&entries, 8, 10), Some(vec![11]));
    }

    #[test]
    fn old_entries_are_forgotten_at_the_limits() {
        let entries = RecentEntries::default();
        for number in 1..=1500 {
            entries.add(number, item("{}"));
        }
        assert_eq!(numbers(&entries, 499, 1), None);
        assert_eq!(numbers(&entries, 500, 1), Some(vec![501]));
        let large = "x".repeat(MAX_BYTES / 2);
        for number in 1501..=1503 {
            entries.add(number, item(&large));
        }
        assert_eq!(numbers(&entries, 1501, 10), None);
        assert_eq!(numbers(&entries, 1502, 10), Some(vec![1503]));
    }
}
