use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_domain::Timestamp;

/// Engines that compare the time with stored values take a clock as a parameter.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub fn system_clock() -> Clock {
    Arc::new(|| {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
    })
}
