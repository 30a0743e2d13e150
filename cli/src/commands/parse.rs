//! Parsers for values of the command line.

use std::time::Duration;

use pilothouse_domain::chain::SessionChainStatus;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::skill::MemoryPillStatus;
use pilothouse_domain::text::AnswerText;
use pilothouse_domain::value::{ContextPolicy, ThinkingLevel};
use serde_json::Value;

/// Reads a duration: `90s`, `15m`, `12h`, `30d`.
pub fn duration(given: &str) -> Result<Duration, String> {
    let wrong = || "must be a number with a unit: 90s, 15m, 12h, 30d".to_owned();
    let unit = given.chars().last().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = given[..given.len() - 1].parse().map_err(|_| wrong())?;
    let length = number.checked_mul(seconds).filter(|s| *s > 0).map(Duration::from_secs).ok_or_else(wrong)?;
    if length > LONGEST { Err("must be at most 3650d".to_owned()) } else { Ok(length) }
}

/// The maximum of [`duration`]: ten years.
const LONGEST: Duration = Duration::from_hours(3650 * 24);

/// Reads a waiting time in seconds, at most a month.
pub fn waiting_seconds() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=30 * 24 * 60 * 60)
}

/// Reads a label: `key=value`.
pub fn label(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be key=value".into()),
    }
}

/// Reads a status, ignoring case.
pub fn status(given: &str) -> Result<AgentSessionStatus, String> {
    AgentSessionStatus::ALL.into_iter().find(|s| s.to_string().eq_ignore_ascii_case(given)).ok_or_else(|| {
        let all: Vec<_> = AgentSessionStatus::ALL.iter().map(ToString::to_string).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads the status of a memory pill, ignoring case.
pub fn pill_status(given: &str) -> Result<MemoryPillStatus, String> {
    use MemoryPillStatus as S;
    [S::Active, S::Consolidated, S::Dismissed]
        .into_iter()
        .find(|status| status.to_string().eq_ignore_ascii_case(given))
        .ok_or_else(|| "must be one of Active, Consolidated, Dismissed".to_owned())
}

/// Reads the status of a chain, ignoring case.
pub fn chain_status(given: &str) -> Result<SessionChainStatus, String> {
    SessionChainStatus::ALL.into_iter().find(|s| s.to_string().eq_ignore_ascii_case(given)).ok_or_else(|| {
        let all: Vec<_> = SessionChainStatus::ALL.iter().map(ToString::to_string).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads a thinking level.
pub fn thinking_level(given: &str) -> Result<ThinkingLevel, String> {
    ThinkingLevel::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(given)).ok_or_else(|| {
        let all: Vec<_> = ThinkingLevel::ALL.iter().map(|level| level.name()).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads an idle time in seconds: `15m`, or `never`, which becomes 0.
pub fn idle_time(given: &str) -> Result<u64, String> {
    if matches!(given, "never" | "0") {
        return Ok(0);
    }
    duration(given)
        .map(|time| time.as_secs())
        .map_err(|_| "must be never, or a time: 90s, 15m, 12h, 30d".to_owned())
}

/// Reads an option of an adapter: `key=value`. A value that is not JSON is a text.
pub fn option(given: &str) -> Result<(String, Value), String> {
    let (key, value) = label(given)?;
    let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
    Ok((key, value))
}

/// Reads an answer to questions.
pub fn answer(given: &str) -> Result<AnswerText, String> {
    AnswerText::parse(given).map_err(|error| error.to_string())
}

/// Reads a context policy.
pub fn context_policy(given: &str) -> Result<ContextPolicy, String> {
    match given {
        "handoff" => Ok(ContextPolicy::Handoff),
        "compact" => Ok(ContextPolicy::Compact),
        _ => Err("must be handoff or compact".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{duration, idle_time, label, option, status, thinking_level};

    #[test]
    fn values_are_parsed_or_refused() {
        assert_eq!(duration("15m"), Ok(Duration::from_mins(15)));
        assert_eq!(duration("30d"), Ok(Duration::from_hours(720)));
        assert!(
            ["", "5", "m", "0s", "-1s", "1é", "99999999999999999999d", "3651d", "9223372036854775808s"]
                .iter()
                .all(|d| duration(d).is_err())
        );
        assert_eq!((idle_time("15m"), idle_time("never")), (Ok(900), Ok(0)));
        assert!(idle_time("soon").is_err());
        assert_eq!(option("depth=3"), Ok(("depth".into(), json!(3))));
        assert_eq!(option("mode=fast"), Ok(("mode".into(), json!("fast"))));
        assert_eq!(thinking_level("High").unwrap().name(), "high");
        assert!(thinking_level("deep").unwrap_err().contains("minimal"));
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(["=b", "a"].iter().all(|l| label(l).is_err()));
        assert_eq!(status("waitingforinput").unwrap().to_string(), "WaitingForInput");
        assert!(status("asleep").unwrap_err().contains("Idle"));
    }
}
