//! A calendar day in the format of S4: `YYYY-MM-DD`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// In UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Day(jiff::civil::Date);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a day like 2026-11-22")]
pub struct InvalidDay {
    given: String,
}

impl Day {
    pub fn of(instant: Timestamp) -> Self {
        // `Timestamp` keeps its value in range.
        let instant = jiff::Timestamp::from_millisecond(instant.as_millis()).unwrap_or_default();
        Self(instant.to_zoned(jiff::tz::TimeZone::UTC).date())
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Day {
    type Err = InvalidDay;
    fn from_str(s: &str) -> Result<Self, InvalidDay> {
        let invalid = || InvalidDay { given: s.chars().take(40).collect() };
        // Check the length, as the parser would also accept a time after the date.
        let right_length = s.len() == "YYYY-MM-DD".len();
        right_length.then(|| s.parse().ok()).flatten().map(Self).ok_or_else(invalid)
    }
}

impl TryFrom<String> for Day {
    type Error = InvalidDay;
    fn try_from(s: String) -> Result<Self, InvalidDay> {
        s.parse()
    }
}

impl From<Day> for String {
    fn from(day: Day) -> Self {
        day.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_round_trips_in_the_file_format() {
        let day = Day::of("2026-11-22T23:59:59.999Z".parse().unwrap());
        assert_eq!(day.to_string(), "2026-11-22");
        assert_eq!("2026-11-22".parse(), Ok(day));
    }

    #[test]
    fn invalid_day_is_refused() {
        for text in ["", "22.11.2026", "2026-13-01", "2026-11-22T10:00:00Z", "2026-1-1"] {
            assert!(text.parse::<Day>().is_err(), "{text}");
        }
    }
}
