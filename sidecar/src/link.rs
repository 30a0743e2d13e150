//! Whether the broker can be reached: when something was last published (ruling 13).

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Remembers the last successful publication on the monotonic clock.
#[derive(Debug)]
pub struct Link {
    last: Mutex<Instant>,
}

impl Default for Link {
    fn default() -> Self {
        Self { last: Mutex::new(Instant::now()) }
    }
}

impl Link {
    fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was published.
    pub fn published(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Nothing is to be published before `until`, so its absence says nothing.
    pub fn excused(&self, until: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = until.max(*last);
    }

    /// Returns once nothing was published for `limit`.
    pub async fn isolated(&self, limit: Duration) {
        loop {
            let due = self.last() + limit;
            if due <= Instant::now() {
                return;
            }
            sleep_until(due).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_publication_moves_the_end_away() {
        let link = Link::default();
        let start = Instant::now();
        let publish = async {
            tokio::time::sleep(Duration::from_secs(30)).await;
            link.published();
        };
        tokio::join!(link.isolated(Duration::from_mins(1)), publish);
        assert_eq!(start.elapsed(), Duration::from_secs(90));
    }
}
