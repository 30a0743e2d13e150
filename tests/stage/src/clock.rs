//! A time that passes when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use pilothouse_domain::Timestamp;
use pilothouse_sqlite::{Clock, system_clock};

/// A clock; clones show the same time.
#[derive(Clone)]
pub struct TestClock {
    base: Clock,
    /// Milliseconds.
    ahead: Arc<AtomicI64>,
}

impl TestClock {
    /// The system's time, which a test can let jump ahead.
    pub fn system() -> Self {
        Self { base: system_clock(), ahead: Arc::default() }
    }

    /// A time that stands still until a test sets it.
    pub fn at(time: Timestamp) -> Self {
        let ahead = Arc::new(AtomicI64::new(time.as_millis()));
        Self { base: Arc::new(|| Timestamp::from_millis(0)), ahead }
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        self.ahead.fetch_add(i64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// Sets a time that stands still.
    pub fn set(&self, time: Timestamp) {
        let now = (self.base)().as_millis();
        self.ahead.store(time.as_millis() - now, Ordering::SeqCst);
    }

    /// As the parts of an app take it.
    pub fn shown(&self) -> Clock {
        let Self { base, ahead } = self.clone();
        Arc::new(move || Timestamp::from_millis(base().as_millis() + ahead.load(Ordering::SeqCst)))
    }
}
