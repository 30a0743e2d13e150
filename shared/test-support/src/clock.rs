use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::{Clock, system_clock};

/// A clock that a test controls. Clones share their time.
#[derive(Clone)]
pub struct TestClock {
    base: Clock,
    /// Offset in milliseconds.
    ahead: Arc<AtomicI64>,
}

impl TestClock {
    /// Follows the system clock, plus an offset that the test sets.
    pub fn system() -> Self {
        Self { base: system_clock(), ahead: Arc::default() }
    }

    /// Creates a clock that stays at `time` until the test changes it.
    pub fn at(time: Timestamp) -> Self {
        let ahead = Arc::new(AtomicI64::new(time.as_millis()));
        Self { base: Arc::new(|| Timestamp::from_millis(0)), ahead }
    }

    pub fn advance(&self, time: Duration) {
        self.ahead.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub fn set(&self, time: Timestamp) {
        let now = (self.base)().as_millis();
        self.ahead.store(time.as_millis() - now, Ordering::SeqCst);
    }

    pub fn as_fn(&self) -> Clock {
        let Self { base, ahead } = self.clone();
        Arc::new(move || Timestamp::from_millis(base().as_millis() + ahead.load(Ordering::SeqCst)))
    }
}
