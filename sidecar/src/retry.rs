//! Waiting between tries: exponential, with jitter, so that many sidecars do not come back at once.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Counts failed tries and says how long to wait after each.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits about `first` after the first failure and never more than `most`.
    pub const fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, failures: 0 }
    }

    /// What the sidecar uses towards the broker: from 100 ms to a twelfth of the time after which it counts as isolated,
    /// 5 s of 60 s (ruling 13). Whoever waits for it allows for that: missing envelopes, say, are asked for three times
    /// in half that time (ruling 9), and must find it listening. So it is a share of the limit and no time of its own.
    pub fn broker(isolation: Duration) -> Self {
        Self::new(Duration::from_millis(100), isolation / 12)
    }

    /// Forgets the failures.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Counts a failure; half to all of the doubled time is to be waited.
    pub fn failed(&mut self) -> Duration {
        let full = self.first.saturating_mul(1 << self.failures.min(16)).min(self.most);
        self.failures = self.failures.saturating_add(1);
        let half = full / 2;
        let span = u64::try_from(half.as_micros()).unwrap_or(u64::MAX).max(1);
        half + Duration::from_micros(random() % span)
    }
}

/// A random number without a dependency: each `RandomState` has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn towards_the_broker_it_waits_no_longer_than_a_twelfth_of_the_isolation() {
        for isolation in [6, 60].map(Duration::from_secs) {
            let mut backoff = Backoff::broker(isolation);
            let longest = (0..20).map(|_| backoff.failed()).max().unwrap();
            assert!(longest >= isolation / 24 && longest <= isolation / 12, "{longest:?} of {isolation:?}");
        }
    }

    #[test]
    fn waits_grow_to_the_limit_and_start_again_after_a_success() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<_> = (0..8).map(|_| backoff.failed()).collect();
        assert!(waits[0] >= Duration::from_millis(50) && waits[0] <= Duration::from_millis(100));
        assert!(waits[2] >= Duration::from_millis(200));
        assert!(waits[4..].iter().all(|w| *w >= Duration::from_millis(500) && *w <= Duration::from_secs(1)));
        backoff.reset();
        assert!(backoff.failed() <= Duration::from_millis(100));
    }
}
