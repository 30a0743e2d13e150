//! Cron expressions with five fields: minute, hour, day of month, month, day of week (S0 8.5 `AgentSchedule`).
//!
//! A field is `*` or a list of numbers and ranges; `*` and ranges may have a step: `0,30`, `9-17`, `*/15`, `8-18/2`. Months and
//! days of the week have names (`jan`, `MON`); Sunday is 0 and 7. As in the original cron, a day matches if either day field
//! matches, unless one of them begins with `*`; then both have to match.

use jiff::ToSpan;
use jiff::civil::{Date, DateTime, Time};
use serde::{Deserialize, Serialize};

use crate::string_value::string_value;

/// A valid cron expression that matches at least one day of some year.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CronExpression {
    text: String,
    minutes: FieldValues,
    hours: FieldValues,
    days: FieldValues,
    months: FieldValues,
    weekdays: FieldValues,
    either_day: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    #[error("must have at most {max} characters")]
    TooLong { max: usize },
    #[error("must have five fields (minute, hour, day of month, month, day of week), but has {actual}")]
    FieldCount { actual: usize },
    /// A part of a field that is not a number, name, range or step.
    #[error("`{part}` is not a {field} (`*`, {min}-{max}, a range, a list or a step)")]
    Part {
        /// Name of the field; `min` and `max` are its limits.
        field: &'static str,
        part: String,
        min: u8,
        max: u8,
    },
    #[error("the range `{part}` of the {field} ends before it begins")]
    Backwards {
        /// Name of the field.
        field: &'static str,
        part: String,
    },
    /// A step that is zero, or applied to a single number.
    #[error("the step `{part}` of the {field} must be at least 1, of `*` or of a range")]
    Step {
        /// Name of the field.
        field: &'static str,
        part: String,
    },
    /// Matches no day of any year, like the 30th of February.
    #[error("matches no day of any year")]
    Never,
}

/// A set of numbers below 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct FieldValues(u64);

impl FieldValues {
    fn add(&mut self, from: u8, to: u8, step: u8) {
        for n in (from..=to).step_by(usize::from(step)) {
            self.0 |= 1 << n;
        }
    }

    fn has(self, n: i8) -> bool {
        self.from(n) == Some(n)
    }

    /// The smallest number of the set that is at least `n`.
    fn from(self, n: i8) -> Option<i8> {
        let n = u32::try_from(n).ok().filter(|n| *n < 64)?;
        let rest = self.0 >> n << n;
        (rest != 0).then(|| rest.trailing_zeros()).and_then(|n| i8::try_from(n).ok())
    }
}

/// Name and limits of a field.
struct FieldKind {
    name: &'static str,
    min: u8,
    max: u8,
    /// Names of the numbers, starting at `min`.
    names: &'static [&'static str],
}

const MINUTE: FieldKind = FieldKind { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: FieldKind = FieldKind { name: "hour", min: 0, max: 23, names: &[] };
const DAY: FieldKind = FieldKind { name: "day of month", min: 1, max: 31, names: &[] };
const MONTH: FieldKind = FieldKind {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: FieldKind = FieldKind {
    name: "day of week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

impl FieldKind {
    fn read(&self, field: &str) -> Result<FieldValues, InvalidCron> {
        let mut numbers = FieldValues::default();
        for part in field.split(',') {
            let (from, to, step) = self.part(part)?;
            numbers.add(from, to, step);
        }
        Ok(numbers)
    }

    fn part(&self, part: &str) -> Result<(u8, u8, u8), InvalidCron> {
        let (range, step) = match part.split_once('/') {
            None => (part, None),
            Some((range, step)) => (range, Some(step)),
        };
        let (from, to) = if range == "*" {
            // Count Sunday only once.
            (self.min, self.max.min(if self.max == 7 { 6 } else { self.max }))
        } else if let Some((from, to)) = range.split_once('-') {
            let from = self.number(from, part)?;
            match self.number(to, part)? {
                0 if self.max == 7 && from > 0 => (from, 7),
                to => (from, to),
            }
        } else {
            let number = self.number(range, part)?;
            (number, number)
        };
        if from > to {
            return Err(InvalidCron::Backwards { field: self.name, part: part.to_owned() });
        }
        let Some(step) = step else { return Ok((from, to, 1)) };
        let wrong = || InvalidCron::Step { field: self.name, part: part.to_owned() };
        let of_many = range == "*" || range.contains('-');
        let step = digits(step).filter(|step| *step > 0 && of_many).ok_or_else(wrong)?;
        Ok((from, to, step))
    }

    fn number(&self, text: &str, part: &str) -> Result<u8, InvalidCron> {
        let named = || self.names.iter().zip(self.min..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        digits(text)
            .or_else(|| named().map(|(_, n)| n))
            .filter(|n| (self.min..=self.max).contains(n))
            .ok_or_else(|| InvalidCron::Part {
                field: self.name,
                part: part.to_owned(),
                min: self.min,
                max: self.max,
            })
    }
}

/// Parses one to three digits. Rejects signs such as `+5`, which `parse` accepts.
fn digits(text: &str) -> Option<u8> {
    (text.len() <= 3 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

impl CronExpression {
    pub const MAX: usize = 200;
    /// How many years to search for a matching day. The 29th of February falls on a certain day of the week every 28 years, or
    /// after 40 years if a century year without a leap day is in between.
    const YEARS: i32 = 50;

    /// Reads an expression. The number of spaces between fields does not matter.
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        if text.chars().count() > Self::MAX {
            return Err(InvalidCron::TooLong { max: Self::MAX });
        }
        let fields: Vec<_> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(InvalidCron::FieldCount { actual: fields.len() });
        };
        let mut weekdays = WEEKDAY.read(weekday)?;
        if weekdays.has(7) {
            weekdays.0 = weekdays.0 & !(1 << 7) | 1;
        }
        let expression = Self {
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays,
            either_day: !day.starts_with('*') && !weekday.starts_with('*'),
            text: fields.join(" "),
        };
        if expression.is_satisfiable() { Ok(expression) } else { Err(InvalidCron::Never) }
    }

    /// The expression as it was written, with single spaces.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some year has a matching day, judged by the lengths of the months.
    fn is_satisfiable(&self) -> bool {
        const LONGEST: [i8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let long_enough = |(month, longest): (i8, &i8)| {
            self.months.has(month) && self.days.from(1).is_some_and(|first| first <= *longest)
        };
        self.either_day || (1..).zip(&LONGEST).any(long_enough)
    }

    /// Whether a date matches the three day fields.
    pub fn matches_date(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        let fits = if self.either_day { day || weekday } else { day && weekday };
        fits && self.months.has(date.month())
    }

    /// Whether a time of day matches minute and hour.
    pub fn matches_time(&self, time: Time) -> bool {
        self.hours.has(time.hour()) && self.minutes.has(time.minute())
    }

    /// The first matching local time after the minute of `local`. `None` if no matching day is in range.
    pub fn next_local_time(&self, local: DateTime) -> Option<DateTime> {
        let date = local.date();
        let later_today = self.time_from(local.hour(), local.minute().saturating_add(1));
        if let Some(time) = later_today.filter(|_| self.matches_date(date)) {
            return Some(date.to_datetime(time));
        }
        Some(self.date_after(date)?.to_datetime(self.time_from(0, 0)?))
    }

    fn time_from(&self, hour: i8, minute: i8) -> Option<Time> {
        let this_hour =
            self.minutes.from(minute).filter(|_| self.hours.has(hour)).map(|minute| (hour, minute));
        let (hour, minute) =
            this_hour.or_else(|| self.hours.from(hour.saturating_add(1)).zip(self.minutes.from(0)))?;
        Time::new(hour, minute, 0, 0).ok()
    }

    fn date_after(&self, date: Date) -> Option<Date> {
        let last = date.checked_add(Self::YEARS.years()).unwrap_or(Date::MAX);
        let mut date = date.tomorrow().ok()?;
        while date <= last {
            if self.matches_date(date) {
                return Some(date);
            }
            let skipped = if self.months.has(date.month()) { date } else { date.last_of_month() };
            date = skipped.tomorrow().ok()?;
        }
        None
    }
}

string_value!(CronExpression.text, InvalidCron, |text: String| Self::parse(&text));

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str) -> CronExpression {
        CronExpression::parse(text).unwrap()
    }

    fn next(text: &str, after: &str) -> String {
        cron(text).next_local_time(after.parse().unwrap()).unwrap().strftime("%F %H:%M %a").to_string()
    }

    #[test]
    fn numbers_ranges_lists_and_steps() {
        assert_eq!(next("*/15 * * * *", "2026-01-01T10:00"), "2026-01-01 10:15 Thu");
        assert_eq!(next("*/15 * * * *", "2026-01-01T10:59:59"), "2026-01-01 11:00 Thu");
        assert_eq!(next("5,35 9-17/4 * * *", "2026-01-01T09:35"), "2026-01-01 13:05 Thu");
        assert_eq!(next("5,35 9-17/4 * * *", "2026-01-01T17:35"), "2026-01-02 09:05 Fri");
        assert_eq!(next("0 0 1 1 *", "2026-01-01T00:00"), "2027-01-01 00:00 Fri");
        assert_eq!(next("0 0 * * *", "2026-12-31T00:00:30"), "2027-01-01 00:00 Fri");
        assert_eq!(next("59 23 31 * *", "2026-01-31T23:59"), "2026-03-31 23:59 Tue");
    }

    #[test]
    fn month_and_day_names_are_parsed() {
        assert_eq!(next("0 8 * feb MON-fri", "2026-01-15T00:00"), "2026-02-02 08:00 Mon");
        assert_eq!(next("0 8 * * sat-SUN", "2026-01-03T08:00"), "2026-01-04 08:00 Sun");
        assert_eq!(cron("0 8 * * 5-7").weekdays, cron("0 8 * * fri,sat,0").weekdays);
        assert_eq!(next("0 8 * * 7", "2026-01-01T00:00"), next("0 8 * * 0", "2026-01-01T00:00"));
        assert_eq!(cron("0 0 * * */7").weekdays, cron("0 0 * * sun").weekdays);
    }

    /// 13th or Friday if both are given; only Fridays or both conditions if one begins with a star.
    #[test]
    fn month_days_and_weekdays_combine_unless_one_is_a_star() {
        assert_eq!(next("0 0 13 * fri", "2026-01-09T00:00"), "2026-01-13 00:00 Tue");
        assert_eq!(next("0 0 13 * fri", "2026-01-13T00:00"), "2026-01-16 00:00 Fri");
        assert_eq!(next("0 0 13 * *", "2026-01-13T00:00"), "2026-02-13 00:00 Fri");
        assert_eq!(next("0 0 * * fri", "2026-01-09T00:00"), "2026-01-16 00:00 Fri");
        assert_eq!(next("0 0 */2 * mon", "2026-01-01T00:00"), "2026-01-05 00:00 Mon");
        assert_eq!(next("0 0 */2 * mon", "2026-01-05T00:00"), "2026-01-19 00:00 Mon", "the 12th is even");
    }

    #[test]
    fn distant_leap_days_are_found() {
        assert_eq!(next("0 0 29 2 *", "2026-01-01T00:00"), "2028-02-29 00:00 Tue");
        assert_eq!(next("0 0 29 2 *", "2096-02-29T00:00"), "2104-02-29 00:00 Fri", "2100 is no leap year");
        assert_eq!(next("0 0 29 2 */7", "2026-01-01T00:00"), "2032-02-29 00:00 Sun");
        assert_eq!(next("0 0 29 2 */7", "2088-02-29T00:00"), "2128-02-29 00:00 Sun");
    }

    #[test]
    fn invalid_expression_is_refused_with_the_reason() {
        let said = |text: &str| CronExpression::parse(text).unwrap_err().to_string();
        assert!(said("* * * *").contains("but has 4"));
        assert!(said("@daily").contains("but has 1"));
        assert!(said("0 0 0 * * *").contains("but has 6"));
        assert_eq!(said("60 * * * *"), "`60` is not a minute (`*`, 0-59, a range, a list or a step)");
        for wrong in [
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * foo *",
            "* * * * 8",
            "* * * * monday",
            "+5 * * * *",
            "-5 * * * *",
            ", * * * *",
            "1, * * * *",
            "1-2-3 * * * *",
            "*-5 * * * *",
            "256 * * * *",
            "1.5 * * * *",
            "** * * * *",
            "jan * * * *",
            "L * * * *",
            "? * * * *",
            "٣ * * * *",
        ] {
            assert!(matches!(CronExpression::parse(wrong), Err(InvalidCron::Part { .. })), "{wrong}");
        }
        for wrong in ["*/0 * * * *", "5/10 * * * *", "*/x * * * *", "*/ * * * *", "1-5/2/2 * * * *"] {
            assert!(matches!(CronExpression::parse(wrong), Err(InvalidCron::Step { .. })), "{wrong}");
        }
        for wrong in ["30-10 * * * *", "* * * dec-jan *", "* * * * fri-mon"] {
            assert!(matches!(CronExpression::parse(wrong), Err(InvalidCron::Backwards { .. })), "{wrong}");
        }
        for never in ["0 0 30 2 *", "0 0 31 feb,apr,jun,sep,nov *"] {
            assert_eq!(CronExpression::parse(never), Err(InvalidCron::Never), "{never}");
        }
        assert!(CronExpression::parse("0 0 30 2 mon").is_ok(), "Mondays of February");
        assert!(matches!(CronExpression::parse(&"1,".repeat(101)), Err(InvalidCron::TooLong { .. })));
    }

    #[test]
    fn cron_is_serialised_as_its_text() {
        let stored = serde_json::to_string(&cron("  0  9 * *   1-5 ")).unwrap();
        assert_eq!(stored, "\"0 9 * * 1-5\"");
        assert_eq!(serde_json::from_str::<CronExpression>(&stored).unwrap(), cron("0 9 * * 1-5"));
    }
}
