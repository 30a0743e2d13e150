//! Tracks whether the control plane is reachable, and when it last accepted something.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Records since when requests fail. An outage begins with the first failed request, so a suspension does not count.
#[derive(Debug, Default)]
pub struct Link {
    failing_since: Mutex<Option<Instant>>,
    published_at: Mutex<Option<Instant>>,
    changed: Notify,
}

impl Link {
    /// Records that a request sent at `sent` was accepted.
    pub fn published(&self, sent: Instant) {
        let mut published_at = self.published_at.lock().unwrap_or_else(PoisonError::into_inner);
        *published_at = Some(sent).max(*published_at);
        drop(published_at);
        self.set(|since| *since = None);
    }

    /// When the last accepted request was sent.
    pub fn published_at(&self) -> Option<Instant> {
        *self.published_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn failed(&self) {
        self.set(|since| _ = since.get_or_insert_with(Instant::now));
    }

    fn set(&self, change: impl FnOnce(&mut Option<Instant>)) {
        let mut since = self.failing_since.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *since;
        change(&mut since);
        if before.is_some() != since.is_some() {
            self.changed.notify_waiters();
        }
    }

    /// `None` if the last request succeeded.
    pub fn failing_since(&self) -> Option<Instant> {
        *self.failing_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next transition between reachable and unreachable.
    pub fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    pub async fn online(&self) {
        loop {
            let changed = self.changed();
            if self.failing_since().is_none() {
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn link_fails_from_the_first_failure_until_a_success() {
        let link = Link::default();
        let start = Instant::now();
        link.failed();
        tokio::time::advance(Duration::from_secs(50)).await;
        link.failed();
        assert_eq!(link.failing_since(), Some(start));
        let sent = Instant::now();
        tokio::join!(link.online(), async { link.published(sent) });
        assert_eq!((link.failing_since(), link.published_at()), (None, Some(sent)));
    }
}
