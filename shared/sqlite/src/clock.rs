//! Time as an argument, for engines that compare it with what is stored.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_domain::Timestamp;

/// Tells the time. Tests give their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The clock of the machine.
pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    })
}
