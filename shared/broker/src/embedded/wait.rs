//! Long polls: asleep until a send, a release or a visibility timeout gives them something to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// One long poll. The bell of a queue wakes one poll; one that ends after it slept, in whatever way, rings for the
/// next, which may be asleep for longer than what there is to do by now.
pub(super) struct Waiting {
    deadline: Instant,
    bell: Option<Arc<Notify>>,
}

impl Waiting {
    pub(super) fn begin(wait: Duration) -> Self {
        Self { deadline: Instant::now() + wait, bell: None }
    }

    /// Sleeps until the bell rings, the next message becomes visible, or the poll's time is over. False when it was
    /// over before. A bell that rang since the poll last looked is not missed: it keeps one ring.
    pub(super) async fn sleep(&mut self, bell: Arc<Notify>, until_next: Option<Duration>) -> bool {
        let now = Instant::now();
        if now >= self.deadline {
            return false;
        }
        let wake = until_next.map_or(self.deadline, |next| self.deadline.min(now + next));
        let bell = &*self.bell.insert(bell);
        tokio::select! {
            () = bell.notified() => {}
            () = sleep_until(wake) => {}
        }
        true
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(bell) = &self.bell {
            bell.notify_one();
        }
    }
}
