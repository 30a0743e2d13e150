//! Delays between retries of a failed call (S1 6.2).

use std::time::Duration;

use crate::session::config::RetryPolicy;

impl RetryPolicy {
    pub(crate) fn at_most(self, retries: u32) -> Self {
        Self { max_retries: Some(self.max_retries.map_or(retries, |most| most.min(retries))), ..self }
    }

    /// The delay after failed attempt number `attempt`, counted from 0: `base · 2^attempt` up to the maximum, or the
    /// provider's `retry_after`. `None` if the call is not retried any more, because it has failed for `elapsed`.
    ///
    /// `random`, from 0 to 1, spreads the retries of several agents: it takes up to half of a delay, and adds up to a
    /// tenth to a provider's.
    pub fn delay(
        &self,
        attempt: u32,
        retry_after: Option<Duration>,
        elapsed: Duration,
        random: f64,
    ) -> Option<Duration> {
        if self.max_retries.is_some_and(|most| attempt >= most) {
            return None;
        }
        let grown = || {
            let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
            let longest = self.base_delay.saturating_mul(factor).min(self.max_delay);
            longest.mul_f64(1.0 - random.clamp(0.0, 1.0) / 2.0)
        };
        let requested = |after: Duration| after.saturating_add((after / 10).mul_f64(random.clamp(0.0, 1.0)));
        let delay = retry_after.map_or_else(grown, requested);
        (elapsed.saturating_add(delay) <= self.patience).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let policy = RetryPolicy { max_delay: Duration::from_mins(1), ..RetryPolicy::default() };
        let delay = |attempt| policy.delay(attempt, None, NOW, 0.0).unwrap().as_secs();
        assert_eq!((0..7).map(delay).collect::<Vec<_>>(), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(delay(200), 60);
    }

    #[test]
    fn jitter_spreads_the_retries_of_several_agents() {
        let policy = RetryPolicy::default();
        let delay = |after, random| policy.delay(1, after, NOW, random).unwrap();
        assert_eq!(delay(None, 1.0), Duration::from_secs(2));
        assert_eq!(delay(None, 0.5), Duration::from_secs(3));
        let after = Some(Duration::from_secs(100));
        assert_eq!(delay(after, 0.0), Duration::from_secs(100), "never earlier than requested");
        assert_eq!(delay(after, 1.0), Duration::from_secs(110));
    }

    #[test]
    fn provider_delay_is_respected_within_the_patience() {
        let policy = RetryPolicy::default();
        let hour = Some(Duration::from_hours(1));
        assert_eq!(policy.delay(0, hour, NOW, 0.0), hour, "also above the maximum of other delays");
        assert_eq!(policy.delay(0, hour, Duration::from_hours(5), 0.0), hour);
        assert_eq!(policy.delay(0, hour, Duration::from_hours(5) + Duration::from_secs(1), 0.0), None);
        assert_eq!(policy.delay(0, Some(Duration::MAX), NOW, 1.0), None);
    }

    #[test]
    fn number_of_retries_can_be_limited() {
        let policy = RetryPolicy { max_retries: Some(2), ..RetryPolicy::default() };
        assert!(policy.delay(1, None, NOW, 0.0).is_some());
        assert_eq!(policy.delay(2, None, NOW, 0.0), None);
    }
}
