//! Build files that allowed calls of this run changed: a build may run what they contain.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most files to remember. The oldest are forgotten.
const MAX_FILES: usize = 200;
/// Most bytes of their names.
const MAX_BYTES: usize = 64 * 1024;

/// Clones share the files.
#[derive(Debug, Clone, Default)]
pub(super) struct ChangedBuildFiles(Arc<Mutex<VecDeque<String>>>);

impl ChangedBuildFiles {
    fn files(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, changed: &[String]) {
        let mut files = self.files();
        for file in changed {
            files.retain(|known| known != file);
            files.push_back(file.clone());
        }
        let surplus = files.len().saturating_sub(MAX_FILES);
        files.drain(..surplus);
        while files.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            files.pop_front();
        }
    }

    /// The files, the oldest first.
    pub(super) fn list(&self) -> Vec<String> {
        self.files().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_once_and_the_oldest_are_dropped() {
        let files = ChangedBuildFiles::default();
        let named = |n: usize| format!("{n}/Makefile");
        files.record(&[named(0), named(1)]);
        files.record(&[named(0)]);
        assert_eq!(files.list(), [named(1), named(0)]);
        files.record(&(2..=MAX_FILES).map(named).collect::<Vec<_>>());
        let list = files.list();
        assert_eq!(
            (list.len(), list.first(), list.last()),
            (MAX_FILES, Some(&named(0)), Some(&named(MAX_FILES)))
        );
    }
}
