//! How often somebody may do something: a bucket of tokens, kept as one point in time.
//!
//! This is the generic cell rate algorithm: each call moves the time until which calls are paid for on by one step, and one
//! that would move it too far ahead of now is refused. It needs one timestamp, no count and no clean-up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// A limit: so many calls at once, and one more each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// Calls that may come at once.
    pub burst: u32,
    /// After how long there is room for one more.
    pub step: Duration,
}

/// One call too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many calls; there is room for one more in {} s", .after.as_millis().div_ceil(1000))]
pub struct RateExceeded {
    /// In how long there is room.
    pub after: Duration,
}

/// How much of a limit is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateGauge {
    /// Until when the calls so far are paid for.
    paid_until: Timestamp,
}

impl Default for RateGauge {
    fn default() -> Self {
        Self { paid_until: Timestamp::from_millis(0) }
    }
}

impl RateGauge {
    /// The gauge after one more call at `now`.
    pub fn take(self, limit: RateLimit, now: Timestamp) -> Result<Self, RateExceeded> {
        let ahead = self.paid_until.since(now);
        let room = limit.step * limit.burst.saturating_sub(1);
        match ahead.checked_sub(room).filter(|after| !after.is_zero()) {
            Some(after) => Err(RateExceeded { after }),
            None => Ok(Self { paid_until: self.paid_until.max(now) + limit.step }),
        }
    }

    /// When it is as if there had never been a call.
    pub const fn empty_at(self) -> Timestamp {
        self.paid_until
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const LIMIT: RateLimit = RateLimit { burst: 3, step: Duration::from_secs(1) };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_burst_is_let_through_and_then_one_a_step() {
        let mut gauge = RateGauge::default();
        for _ in 0..3 {
            gauge = gauge.take(LIMIT, at(0)).unwrap();
        }
        assert_eq!(gauge.take(LIMIT, at(0)), Err(RateExceeded { after: Duration::from_secs(1) }));
        assert_eq!(gauge.take(LIMIT, at(400)), Err(RateExceeded { after: Duration::from_millis(600) }));
        gauge = gauge.take(LIMIT, at(1000)).unwrap();
        assert!(gauge.take(LIMIT, at(1000)).is_err(), "one a step, not three");
    }

    #[test]
    fn rest_fills_it_up_to_the_burst_and_no_further() {
        let mut gauge = RateGauge::default().take(LIMIT, at(0)).unwrap();
        for _ in 0..3 {
            gauge = gauge.take(LIMIT, at(3_600_000)).unwrap();
        }
        assert!(gauge.take(LIMIT, at(3_600_000)).is_err());
        assert_eq!(gauge.empty_at(), at(3_603_000));
    }

    #[test]
    fn a_refusal_says_whole_seconds() {
        let refused = RateExceeded { after: Duration::from_millis(1200) };
        assert_eq!(refused.to_string(), "too many calls; there is room for one more in 2 s");
    }
}
