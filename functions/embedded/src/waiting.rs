//! When background tasks wait: after a failure, and while the disk refuses writes.

use std::time::Duration;

use pilothouse_sqlite::Database;
use tokio::sync::watch;

pub(super) const RETRY_DELAY: Duration = Duration::from_millis(200);

/// Suspends the tasks while the disk refuses writes: they could not acknowledge messages, and each attempt would count as
/// a delivery.
#[derive(Clone)]
pub(super) struct WritableDisk(watch::Receiver<bool>);

impl WritableDisk {
    pub(super) fn of(db: &Database) -> Self {
        Self(db.disk_full())
    }

    pub(super) async fn ready(&mut self) {
        // The sender lives as long as the database, which the tasks use.
        let _ = self.0.wait_for(|full| !full).await;
    }
}
