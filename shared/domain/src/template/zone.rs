//! IANA time zones. The database is compiled in, so it is the same on every machine.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::string_value::string_value;

/// A time zone, with its name as the IANA database spells it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TimeZoneName {
    name: String,
    zone: TimeZone,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not an IANA time zone like Europe/Berlin")]
pub struct InvalidTimeZone {
    /// Shortened.
    pub given: String,
}

impl TimeZoneName {
    /// Finds a zone by its name, ignoring case.
    pub fn parse(name: &str) -> Result<Self, InvalidTimeZone> {
        let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| !zone.is_unknown());
        zone.and_then(|zone| Some(Self { name: zone.iana_name()?.to_owned(), zone }))
            .ok_or_else(|| InvalidTimeZone { given: name.chars().take(80).collect() })
    }

    pub fn as_str(&self) -> &str {
        &self.name
    }

    pub fn local_time(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(instant(at))
    }

    /// The first moment with local time `local`. For a local time that is skipped when clocks go forward, the first moment after
    /// the gap. `None` if the moment is out of range.
    pub fn first_instant_of(&self, local: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(local);
        let moment = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok()?,
            AmbiguousOffset::Gap { .. } => {
                // With the offset before the gap, `local` is the moment of the change or a later one.
                let after = ambiguous.later().ok()?.checked_add(1.nanosecond()).ok()?;
                self.zone.preceding(after).next()?.timestamp()
            }
        };
        Some(Timestamp::from_millis(moment.as_millisecond()))
    }
}

fn instant(at: Timestamp) -> jiff::Timestamp {
    // `Timestamp` keeps its value in range.
    jiff::Timestamp::from_millisecond(at.as_millis()).unwrap_or_default()
}

string_value!(TimeZoneName.name, InvalidTimeZone, |name: String| Self::parse(&name));

impl fmt::Debug for TimeZoneName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimeZoneName({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(zone: &str, local: &str) -> String {
        let zone = TimeZoneName::parse(zone).unwrap();
        zone.first_instant_of(local.parse().unwrap()).unwrap().to_string()
    }

    #[test]
    fn zone_names_match_the_database() {
        assert_eq!(TimeZoneName::parse("europe/berlin").unwrap().as_str(), "Europe/Berlin");
        assert_eq!(TimeZoneName::parse("UTC").unwrap().as_str(), "UTC");
        for wrong in ["", "Europe/Bonn", "+02:00", "Etc/Unknown", "local", "../etc/passwd"] {
            assert!(TimeZoneName::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn skipped_time_moves_forward_and_repeated_time_is_the_first() {
        assert_eq!(moment("Europe/Berlin", "2026-03-29T01:59"), "2026-03-29T00:59:00.000Z");
        assert_eq!(moment("Europe/Berlin", "2026-03-29T02:00"), "2026-03-29T01:00:00.000Z");
        assert_eq!(moment("Europe/Berlin", "2026-03-29T02:30"), "2026-03-29T01:00:00.000Z");
        assert_eq!(moment("Europe/Berlin", "2026-03-29T03:00"), "2026-03-29T01:00:00.000Z");
        assert_eq!(moment("Europe/Berlin", "2026-10-25T02:30"), "2026-10-25T00:30:00.000Z");
        assert_eq!(moment("America/New_York", "2026-03-08T02:30"), "2026-03-08T07:00:00.000Z");
        assert_eq!(moment("America/New_York", "2026-11-01T01:30"), "2026-11-01T05:30:00.000Z");
        assert_eq!(
            moment("Pacific/Apia", "2011-12-30T12:00"),
            "2011-12-30T10:00:00.000Z",
            "a day that never was"
        );
    }
}
