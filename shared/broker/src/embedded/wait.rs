//! Long polls, which wait for a send, a release or a visibility timeout.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One long poll. The bell of a queue wakes one poll. A poll that waited rings the bell when it ends for any reason, because
/// another poll may have to be woken for the remaining messages.
pub(super) struct Waiting {
    deadline: Instant,
    notifier: Option<Arc<Notify>>,
}

impl Waiting {
    pub(super) fn begin(wait: Duration) -> Self {
        Self { deadline: Instant::now() + wait, notifier: None }
    }

    /// Waits until the bell rings, the next message becomes visible, or the poll's time is over. Returns false if the time was over
    /// before. The bell keeps one ring, so that no ring since the last check is missed.
    pub(super) async fn sleep(&mut self, notifier: Arc<Notify>, until_next: Option<Duration>) -> bool {
        let now = Instant::now();
        if now >= self.deadline {
            return false;
        }
        let wake = until_next.map_or(self.deadline, |next| self.deadline.min(now + next));
        let notifier = &*self.notifier.insert(notifier);
        tokio::select! {
            () = notifier.notified() => {}
            () = sleep_until(wake) => {}
        }
        true
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(notifier) = &self.notifier {
            notifier.notify_one();
        }
    }
}
