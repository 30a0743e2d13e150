//! Models that do not answer: the turn stays open, the session pauses, and it resumes for another attempt
//! (decision 93).

use std::time::Duration;

use pilothouse_agent::session::RetryPolicy;
use pilothouse_domain::Timestamp;
use tokio::time::Instant;

use crate::clock::now;

/// The first delay is long, because the agent has already used up its own retries.
const POLICY: RetryPolicy = RetryPolicy {
    base_delay: Duration::from_mins(1),
    max_delay: Duration::from_mins(15),
    patience: Duration::from_hours(6),
    max_retries: None,
};

/// Attempts since the model answered last.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    began: Option<Instant>,
    attempts: u32,
}

impl Outage {
    /// When to try again after a failed attempt. `None`: the owner decides.
    pub(crate) fn retry_at(&mut self) -> Option<Timestamp> {
        let elapsed = self.began.get_or_insert_with(Instant::now).elapsed();
        // The pause and the resume take different times, which spreads the attempts of several agents.
        let delay = POLICY.delay(self.attempts, None, elapsed, 0.0)?;
        self.attempts += 1;
        Some(now() + delay)
    }

    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }
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
        loop {
            let before = now();
            let Some(at) = outage.retry_at() else { break };
            let millis = u64::try_from(at.as_millis() - before.as_millis()).unwrap();
            // The wall clock advances a little between the two calls.
            let delay = Duration::from_secs((millis + 500) / 1000);
            delays.push(delay.as_secs());
            waited += delay;
            tokio::time::advance(delay).await;
        }
        assert_eq!(delays[..6], [60, 120, 240, 480, 900, 900]);
        assert!(waited > Duration::from_hours(5) && waited <= Duration::from_hours(6), "{waited:?}");
        outage.answered();
        assert!(outage.retry_at().is_some());
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
