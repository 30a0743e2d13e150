//! Values of the command line.

use std::time::Duration;

use pilothouse_domain::chain::SessionChainStatus;
use pilothouse_domain::session::AgentSessionStatus;
use pilothouse_domain::skill::MemoryPillStatus;
use pilothouse_domain::value::ContextPolicy;

/// Reads a length of time: `90s`, `15m`, `12h`, `30d`.
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
    number.checked_mul(seconds).filter(|s| *s > 0).map(Duration::from_secs).ok_or_else(wrong)
}

/// Reads a label: `key=value`.
pub fn label(given: &str) -> Result<(String, String), String> {
    match given.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be key=value".into()),
    }
}

/// Reads a status, whatever its capitals.
pub fn status(given: &str) -> Result<AgentSessionStatus, String> {
    AgentSessionStatus::ALL.into_iter().find(|s| s.to_string().eq_ignore_ascii_case(given)).ok_or_else(|| {
        let all: Vec<_> = AgentSessionStatus::ALL.iter().map(ToString::to_string).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads the status of a memory pill, whatever its capitals.
pub fn pill_status(given: &str) -> Result<MemoryPillStatus, String> {
    use MemoryPillStatus as S;
    [S::Active, S::Consolidated, S::Dismissed]
        .into_iter()
        .find(|status| format!("{status:?}").eq_ignore_ascii_case(given))
        .ok_or_else(|| "must be one of Active, Consolidated, Dismissed".to_owned())
}

/// Reads a status of a chain, whatever its capitals.
pub fn chain_status(given: &str) -> Result<SessionChainStatus, String> {
    SessionChainStatus::ALL.into_iter().find(|s| s.to_string().eq_ignore_ascii_case(given)).ok_or_else(|| {
        let all: Vec<_> = SessionChainStatus::ALL.iter().map(ToString::to_string).collect();
        format!("must be one of {}", all.join(", "))
    })
}

/// Reads what is done when a context window fills up.
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

    use super::{duration, label, status};

    #[test]
    fn values_are_read_or_refused() {
        assert_eq!(duration("15m"), Ok(Duration::from_mins(15)));
        assert_eq!(duration("30d"), Ok(Duration::from_hours(720)));
        assert!(
            ["", "5", "m", "0s", "-1s", "1é", "99999999999999999999d"].iter().all(|d| duration(d).is_err())
        );
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert!(["=b", "a"].iter().all(|l| label(l).is_err()));
        assert_eq!(status("waitingforinput").unwrap().to_string(), "WaitingForInput");
        assert!(status("asleep").unwrap_err().contains("Idle"));
    }
}
