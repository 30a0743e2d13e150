//! The wall clock and fresh ids. What they say decides nothing (ruling 13).

use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_domain::{EnvelopeId, Timestamp};
use uuid::Uuid;

/// Now, by this machine's clock.
pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// A fresh envelope id.
pub fn envelope_id() -> EnvelopeId {
    EnvelopeId::new(Uuid::now_v7())
}
