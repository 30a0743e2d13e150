//! Delays between retries of a failed call (S1 6.2).

use std::time::Duration;

use crate::session::config::RetryPolicy;

impl RetryPolicy {
    /// The delay after failed attempt number `attempt`, counted from 0: `base · 2^attempt` or the provider's
    /// `retry_after`, up to the maximum.
    pub fn delay(&self, attempt: u32, retry_after: Option<Duration>) -> Duration {
        let grown = self.base_delay.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
        retry_after.unwrap_or(grown).min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let policy = RetryPolicy {
            base_delay: Duration::from_secs(2),
            max_delay: Duration::from_mins(1),
            max_retries: 9,
        };
        let seconds: Vec<u64> = (0..7).map(|attempt| policy.delay(attempt, None).as_secs()).collect();
        assert_eq!(seconds, [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(policy.delay(200, None).as_secs(), 60);
    }

    #[test]
    fn provider_delay_is_respected_up_to_the_maximum() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.delay(0, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(policy.delay(0, Some(Duration::from_secs(7_000))), policy.max_delay);
    }
}
