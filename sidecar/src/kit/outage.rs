//! Models that do not answer: the turn stays open, the session pauses, and it resumes for another attempt
//! (decision 93).

use std::time::Duration;

use pilothouse_agent::session::RetryPolicy;
use pilothouse_domain::Timestamp;
use tokio::time::Instant;

use crate::clock::now;
use crate::retry::random_fraction;

/// The first delay is long, because the agent has already used up its own retries.
const POLICY: RetryPolicy = RetryPolicy {
    base_delay: Duration::from_mins(1),
    max_delay: Duration::from_mins(15),
    patience: Duration::from_hours(6),
    max_retries: None,
};

/// A larger number in an error is a time, not a delay.
const MAX_REQUESTED: Duration = Duration::from_hours(30 * 24);

/// Attempts since the model answered last.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    began: Option<Instant>,
    attempts: u32,
    /// The delay that the provider requested since the last attempt.
    requested: Option<Duration>,
}

impl Outage {
    /// When to try again after a failed attempt. `None`: the owner decides.
    pub(crate) fn retry_at(&mut self) -> Option<Timestamp> {
        self.delay(random_fraction()).map(|delay| now() + delay)
    }

    /// `random`, from 0 to 1, spreads the attempts of several agents.
    fn delay(&mut self, random: f64) -> Option<Duration> {
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed();
        let requested = self.requested.take();
        let own = POLICY.delay(self.attempts, None, elapsed, random)?;
        let delay = match requested {
            Some(_) => own.max(POLICY.delay(self.attempts, requested, elapsed, random)?),
            None => own,
        };
        self.attempts += 1;
        Some(delay)
    }

    /// The provider requests a delay: the next attempt is not earlier.
    pub(crate) const fn wait_at_least(&mut self, delay: Duration) {
        self.requested = Some(delay);
    }

    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }
}

/// The delay that an error of a provider requests, such as `"retryDelay": "34s"` of Google or `retry-after: 20`. Other names of it are
/// unknown, because the Agent Client Protocol has no field for it.
pub(crate) fn requested_delay(error: &str) -> Option<Duration> {
    // Errors contain JSON in strings, in several styles of names.
    let error: String = error
        .to_lowercase()
        .chars()
        .filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'' | '\\' | '_' | '-'))
        .collect();
    ["retrydelay", "retryafter"].iter().find_map(|name| {
        let (_, rest) = error.split_once(name)?;
        let (in_milliseconds, rest) = match rest.strip_prefix("ms") {
            Some(rest) => (true, rest),
            None => (false, rest.strip_prefix("seconds").unwrap_or(rest)),
        };
        let rest = rest.strip_prefix([':', '='])?;
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, unit) = rest.split_at(end);
        let factor = if in_milliseconds || unit.starts_with("ms") { 0.001 } else { 1.0 };
        let delay = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * factor).ok()?;
        (delay <= MAX_REQUESTED).then_some(delay)
    })
}

pub(crate) const fn is_transient_status(status: u64) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// Whether an agent's error means that its provider rejects or misses calls for some time.
pub(crate) fn is_transient(error: &str) -> bool {
    const WORDS: [&str; 24] = [
        "too many requests",
        "rate limit",
        "rate_limit",
        "ratelimit",
        "limiting requests",
        "overloaded",
        "resource exhausted",
        "resource_exhausted",
        "internal server error",
        "error: 500",
        "error 500",
        "status 500",
        "status: 500",
        "status code 500",
        "service unavailable",
        "bad gateway",
        "gateway timeout",
        "connection refused",
        "connection reset",
        "connection error",
        "fetch failed",
        "econnrefused",
        "econnreset",
        "etimedout",
    ];
    let error = error.to_lowercase();
    // An account without credit stays without it until its owner pays.
    if error.contains("insufficient_quota") {
        return false;
    }
    // A status is a word of its own, and not the number of a line. `req_4f503a` contains none.
    let mut before = "";
    let mut words = error.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let has_status = words.any(|word| {
        let before = std::mem::replace(&mut before, word);
        matches!(word, "429" | "502" | "503" | "504" | "529") && !matches!(before, "line" | "lines")
    });
    has_status || WORDS.iter().any(|words| error.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn attempts_get_rarer_and_end_after_hours() {
        let mut outage = Outage::default();
        let mut waited = Duration::ZERO;
        let mut delays = Vec::new();
        while let Some(delay) = outage.delay(0.0) {
            delays.push(delay.as_secs());
            waited += delay;
            tokio::time::advance(delay).await;
        }
        assert_eq!(delays[..6], [60, 120, 240, 480, 900, 900]);
        assert!(waited > Duration::from_hours(5) && waited <= Duration::from_hours(6), "{waited:?}");
        outage.answered();
        assert!(outage.retry_at().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_of_several_agents_are_spread() {
        let earliest = now().as_millis();
        let times: Vec<_> =
            (0..50).map(|_| Outage::default().retry_at().unwrap().as_millis() - earliest).collect();
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        // The wall clock advances a little meanwhile.
        assert!(*first >= 30_000 && *last < 70_000, "{times:?}");
        assert!(last - first > 10_000, "{times:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn attempt_is_not_earlier_than_the_provider_requests() {
        let mut outage = Outage::default();
        outage.wait_at_least(Duration::from_mins(20));
        assert_eq!(outage.delay(0.0), Some(Duration::from_mins(20)));
        assert_eq!(outage.delay(0.0), Some(Duration::from_mins(2)), "a request is for one attempt");
        outage.wait_at_least(Duration::from_secs(1));
        assert_eq!(outage.delay(0.0), Some(Duration::from_mins(4)));
        outage.wait_at_least(Duration::from_hours(7));
        assert_eq!(outage.delay(0.0), None, "the owner decides");
    }

    #[test]
    fn requested_delay_is_found_in_an_error() {
        for (error, seconds) in [
            (
                r#"{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}"#,
                34.0,
            ),
            (r#"{"details":"{\"error\":{\"retryDelay\":\"1.5s\"}}"}"#, 1.5),
            ("429 Too Many Requests (retry-after: 20)", 20.0),
            (r#"{"retry_after": 7, "status": 429}"#, 7.0),
            (r#"{"retryAfterMs":2500}"#, 2.5),
            ("retry_delay = 250ms", 0.25),
        ] {
            assert_eq!(requested_delay(error), Some(Duration::from_secs_f64(seconds)), "{error}");
        }
        for error in [
            "429 Too Many Requests",
            "retry after some time",
            "retry-after: Wed, 21 Oct 2026 07:28:00 GMT",
            r#"{"retryAfter":99999999999999999999999999}"#,
            r#"{"retryAfter":"2026-11-28T01:00:00Z"}"#,
            r#"{"retry_after":1795827600}"#,
        ] {
            assert_eq!(requested_delay(error), None, "{error}");
        }
    }

    #[test]
    fn only_failures_of_the_provider_are_transient() {
        for error in [
            "429 Too Many Requests",
            "API Error: 500 internal",
            r#"{"code":529,"type":"overloaded_error"}"#,
            "fetch failed: ECONNREFUSED",
            "[RESOURCE_EXHAUSTED] quota",
        ] {
            assert!(is_transient(error), "{error}");
        }
        for error in [
            "the model said no",
            "400 invalid request",
            "the file has 1429 lines",
            "401 wrong key",
            "invalid request (request id req_4f503a)",
            "invalid request (request id req_503)",
            "syntax error in line 502",
            r#"429 {"code":"insufficient_quota"}"#,
        ] {
            assert!(!is_transient(error), "{error}");
        }
    }
}
