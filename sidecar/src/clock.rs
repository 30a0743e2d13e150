//! The wall clock and fresh ids. No decision depends on this clock (decision 13).

use std::time::{SystemTime, UNIX_EPOCH};

use pilothouse_domain::{EnvelopeId, Timestamp};
use uuid::Uuid;

pub fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

pub fn envelope_id() -> EnvelopeId {
    EnvelopeId::new(Uuid::now_v7())
}
