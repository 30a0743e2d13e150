//! Rate limits: a token bucket that is stored as one timestamp.
//!
//! This is the generic cell rate algorithm. Each call moves a timestamp forward by one step. A call that would move it too far
//! ahead of the current time is refused. No counters or clean-up are needed.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Allows `burst` calls at once and one more per `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    pub burst: u32,
    pub step: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many calls; try again in {} s", .after.as_millis().div_ceil(1000))]
pub struct RateExceeded {
    /// Time until another call is allowed.
    pub after: Duration,
}

/// How much of a limit is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RateGauge {
    /// Time up to which the calls so far use up the limit.
    paid_until: Timestamp,
}

impl Default for RateGauge {
    fn default() -> Self {
        Self { paid_until: Timestamp::from_millis(0) }
    }
}

impl RateGauge {
    /// Counts one call at `now`.
    pub fn take(self, limit: RateLimit, now: Timestamp) -> Result<Self, RateExceeded> {
        let ahead = self.paid_until.since(now);
        let room = limit.step * limit.burst.saturating_sub(1);
        match ahead.checked_sub(room).filter(|after| !after.is_zero()) {
            Some(after) => Err(RateExceeded { after }),
            None => Ok(Self { paid_until: self.paid_until.max(now) + limit.step }),
        }
    }

    /// When the gauge is back to its initial state.
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
    fn burst_is_allowed_and_then_one_per_step() {
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
    fn idle_time_refills_up_to_the_burst() {
        let mut gauge = RateGauge::default().take(LIMIT, at(0)).unwrap();
        for _ in 0..3 {
            gauge = gauge.take(LIMIT, at(3_600_000)).unwrap();
        }
        assert!(gauge.take(LIMIT, at(3_600_000)).is_err());
        assert_eq!(gauge.empty_at(), at(3_603_000));
    }

    #[test]
    fn refusal_gives_whole_seconds() {
        let refused = RateExceeded { after: Duration::from_millis(1200) };
        assert_eq!(refused.to_string(), "too many calls; try again in 2 s");
    }
}
