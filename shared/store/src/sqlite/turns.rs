//! Turns of writers that lost a race for an item. All writers of the file are in this process, so a loser need not guess when to try again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::timeout;

use crate::table::{Key, Turn};

/// A turn should last a few milliseconds. A writer that is stuck delays the others by this long.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

type Lock = tokio::sync::Mutex<()>;

#[derive(Default)]
pub(super) struct Turns(Mutex<HashMap<Key, Weak<Lock>>>);

impl Turns {
    /// Waits until it is the caller's turn; `None` if that takes too long.
    pub(super) async fn take(&self, key: &Key) -> Option<Turn> {
        let lock = self.lock_of(key).lock_owned();
        timeout(LONGEST_WAIT, lock).await.ok().map(|lock| Turn::new(key.clone(), lock))
    }

    fn lock_of(&self, key: &Key) -> Arc<Lock> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(key).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::default();
        locks.insert(key.clone(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn writers_of_one_item_take_turns_in_their_order() {
        let turns = Arc::new(Turns::default());
        let (key, other) = (Key::new("P#a", "POOL"), Key::new("P#b", "POOL"));
        let first = turns.take(&key).await;
        assert!(first.is_some());
        assert!(turns.take(&other).await.is_some(), "another item has turns of its own");
        let done = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for n in 0..3 {
            let (turns, key, done) = (Arc::clone(&turns), key.clone(), Arc::clone(&done));
            waiting.push(tokio::spawn(async move {
                let _turn = turns.take(&key).await.unwrap();
                done.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        assert!(done.lock().unwrap().is_empty());
        drop(first);
        for one in waiting {
            one.await.unwrap();
        }
        assert_eq!(*done.lock().unwrap(), [0, 1, 2]);
        drop(turns.take(&other).await);
        assert_eq!(turns.0.lock().unwrap().len(), 1, "turns that nobody waits for are forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn writer_that_is_stuck_delays_others_by_a_second() {
        let turns = Turns::default();
        let key = Key::new("P#a", "POOL");
        let _stuck = turns.take(&key).await;
        let begun = tokio::time::Instant::now();
        assert!(turns.take(&key).await.is_none());
        assert_eq!(begun.elapsed(), LONGEST_WAIT);
    }
}
