//! Clocks as parameters, for engines that compare the time with stored values.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_domain::Timestamp;

/// Returns the current time. Tests use their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    })
}
