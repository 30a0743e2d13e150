//! Exponential backoff with jitter, so that many sidecars do not retry at the same time.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits about `first` after the first failure, and never more than `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, failures: 0 }
    }

    /// Backoff for broker requests: from 100 ms to a third of the heartbeat interval, that is 5 s of 15 s (decision
    /// 13). The upper bound matters: the control plane asks for missing envelopes three times within 30 s (decision 9),
    /// and the sidecar must listen by then.
    pub fn broker(heartbeat: Duration) -> Self {
        Self::new(Duration::from_millis(100), heartbeat / 3)
    }

    /// Call after a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns how long to wait: a random time between half and all of the doubled interval.
    pub fn failed(&mut self) -> Duration {
        let full = self.first.saturating_mul(1 << self.failures.min(16)).min(self.most);
        self.failures = self.failures.saturating_add(1);
        let half = full / 2;
        let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_micros(random() % span)
    }
}

/// Needs no dependency: each `RandomState` has its own random keys.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random number from 0 to 1.
pub(crate) fn random_fraction() -> f64 {
    let number = u32::try_from(random() >> 32).unwrap_or(u32::MAX);
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_retry_waits_at_most_5_seconds() {
        let mut backoff = Backoff::broker(Duration::from_secs(15));
        let longest = (0..20).map(|_| backoff.failed()).max().unwrap();
        let most = Duration::from_secs(5);
        assert!(longest >= most / 2 && longest <= most, "{longest:?}");
    }

    #[test]
    fn delays_grow_to_the_limit_and_reset_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<_> = (0..8).map(|_| backoff.failed()).collect();
        assert!(waits[0] >= Duration::from_millis(50) && waits[0] <= Duration::from_millis(100));
        assert!(waits[2] >= Duration::from_millis(200));
        assert!(waits[4..].iter().all(|w| *w >= Duration::from_millis(500) && *w <= Duration::from_secs(1)));
        backoff.reset();
        assert!(backoff.failed() <= Duration::from_millis(100));
    }
}
