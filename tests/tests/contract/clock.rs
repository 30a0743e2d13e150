//! A clock that follows the system time and that a test can advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pilothouse_sqlite::{Clock, system_clock};

#[derive(Clone, Default)]
pub(crate) struct Ahead(Arc<AtomicU64>);

impl Ahead {
    pub(crate) fn clock(&self) -> Clock {
        let (ahead, system) = (Arc::clone(&self.0), system_clock());
        Arc::new(move || system() + Duration::from_millis(ahead.load(Ordering::SeqCst)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}
