//! Due times of schedules, across changes of the clocks and for random expressions.

use std::time::Duration;

use jiff::civil::DateTime;
use pilothouse_domain::Timestamp;
use pilothouse_domain::template::cron::CronExpression;
use pilothouse_domain::template::zone::TimeZoneName;
use pilothouse_domain::template::{AgentSchedule, ScheduledLaunch};
use pilothouse_domain::text::{Objective, WorkingDirectory};
use proptest::prelude::*;

const BERLIN: &str = "Europe/Berlin";
const NEW_YORK: &str = "America/New_York";

fn schedule(cron: &str, zone: &str) -> AgentSchedule {
    AgentSchedule {
        cron_expression: CronExpression::parse(cron).unwrap(),
        time_zone: TimeZoneName::parse(zone).unwrap(),
        is_enabled: true,
        launch: ScheduledLaunch {
            working_directory: WorkingDirectory::parse("/work").unwrap(),
            objective: Objective::parse("Do it").unwrap(),
            name: None,
        },
    }
}

/// Local times of the schedule after `after`, like `03-29 03:00`.
fn times(cron: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
    let schedule = schedule(cron, zone);
    let mut at: Timestamp = after.parse().unwrap();
    let mut times = Vec::new();
    for _ in 0..count {
        at = schedule.next_after(at).unwrap();
        times.push(format!(
            "{} {}",
            schedule.time_zone.local_time(at).strftime("%m-%d %H:%M"),
            &at.to_string()[11..16]
        ));
    }
    times
}

#[test]
fn skipped_local_time_maps_to_the_first_moment_after_the_gap() {
    let berlin = times("30 2 * * *", BERLIN, "2026-03-27T12:00:00Z", 3);
    assert_eq!(berlin, ["03-28 02:30 01:30", "03-29 03:00 01:00", "03-30 02:30 00:30"]);
    let new_york = times("30 2 * * *", NEW_YORK, "2026-03-07T00:00:00Z", 3);
    assert_eq!(new_york, ["03-07 02:30 07:30", "03-08 03:00 07:00", "03-09 02:30 06:30"]);
}

#[test]
fn repeated_local_time_counts_once() {
    let berlin = times("30 2 * * *", BERLIN, "2026-10-24T12:00:00Z", 2);
    assert_eq!(berlin, ["10-25 02:30 00:30", "10-26 02:30 01:30"]);
    let new_york = times("30 1 * * *", NEW_YORK, "2026-11-01T00:00:00Z", 2);
    assert_eq!(new_york, ["11-01 01:30 05:30", "11-02 01:30 06:30"]);
    // The search starts between the two occurrences: the time was already due that day.
    assert_eq!(times("30 2 * * *", BERLIN, "2026-10-25T01:10:00Z", 1), ["10-26 02:30 01:30"]);
}

#[test]
fn frequent_schedule_crosses_gap_and_overlap_without_duplicates() {
    let gap = times("*/20 * * * *", BERLIN, "2026-03-29T00:20:00Z", 4);
    assert_eq!(gap, ["03-29 01:40 00:40", "03-29 03:00 01:00", "03-29 03:20 01:20", "03-29 03:40 01:40"]);
    let overlap = times("*/20 * * * *", BERLIN, "2026-10-25T00:00:00Z", 4);
    assert_eq!(overlap, ["10-25 02:20 00:20", "10-25 02:40 00:40", "10-25 03:00 02:00", "10-25 03:20 02:20"]);
}

#[test]
fn skipped_midnight_and_skipped_day_are_handled() {
    // Clocks in Beirut go from 00:00 to 01:00.
    let beirut = times("0 0 * * *", "Asia/Beirut", "2026-03-28T12:00:00Z", 2);
    assert_eq!(beirut, ["03-29 01:00 22:00", "03-30 00:00 21:00"]);
    // Apia had no 30 December in 2011.
    let apia = times("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00:00Z", 3);
    assert_eq!(apia, ["12-29 12:00 22:00", "12-31 00:00 10:00", "12-31 12:00 22:00"]);
}

#[test]
fn schedule_has_no_time_after_the_year_9999() {
    let last = "9999-12-30T00:00:00Z".parse().unwrap();
    assert_eq!(schedule("0 0 1 1 *", "UTC").next_after(last), None);
}

/// A random field: a star, a step, a number, a range or a list.
fn field(min: u8, max: u8) -> impl Strategy<Value = String> {
    let range = (min..=max, min..=max).prop_map(|(a, b)| format!("{}-{}", a.min(b), a.max(b)));
    let one = prop_oneof![
        (min..=max).prop_map(|n| n.to_string()),
        range.clone(),
        (range, 1..9_u8).prop_map(|(range, step)| format!("{range}/{step}")),
    ];
    prop_oneof![
        Just("*".to_owned()),
        (1..9_u8).prop_map(|step| format!("*/{step}")),
        prop::collection::vec(one, 1..4).prop_map(|parts| parts.join(",")),
    ]
}

fn expression() -> impl Strategy<Value = CronExpression> {
    (field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 7)).prop_filter_map(
        "matches no day",
        |(minute, hour, day, month, weekday)| {
            CronExpression::parse(&format!("{minute} {hour} {day} {month} {weekday}")).ok()
        },
    )
}

fn zone() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("UTC"),
        Just(BERLIN),
        Just(NEW_YORK),
        Just("Australia/Lord_Howe"),
        Just("Asia/Kolkata"),
        Just("America/Santiago"),
        Just("Africa/Casablanca"),
    ]
}

/// A random moment in the years 2020 to 2039.
fn moment() -> impl Strategy<Value = Timestamp> {
    (26_297_280_i64..36_815_040, 0..60_000_i64)
        .prop_map(|(minutes, millis)| Timestamp::from_millis(minutes * 60_000 + millis))
}

fn fits(cron: &CronExpression, local: DateTime) -> bool {
    cron.matches_date(local.date()) && cron.matches_time(local.time())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Each time is later than the previous one, is a full minute, and matches the expression, or is the first moment after a gap
    /// that skipped a match.
    #[test]
    fn times_increase_and_match_the_schedule(cron in expression(), zone in zone(), after in moment()) {
        let schedule = AgentSchedule { cron_expression: cron.clone(), ..schedule("* * * * *", zone) };
        let mut at = after;
        for _ in 0..20 {
            let next = schedule.next_after(at).unwrap();
            prop_assert!(next > at);
            prop_assert_eq!(next.as_millis() % 60_000, 0);
            let local = schedule.time_zone.local_time(next);
            let before = schedule.time_zone.local_time(Timestamp::from_millis(next.as_millis() - 60_000));
            let named = fits(&cron, local) || {
                let skipped = cron.next_local_time(before).unwrap();
                skipped < local
            };
            prop_assert!(named, "{} at {}", cron, local);
            at = next;
        }
    }

    /// No time is left out: no minute between two times matches the expression, unless the same local minute occurred before.
    #[test]
    fn no_matching_time_is_skipped(cron in expression(), zone in zone(), after in moment()) {
        let schedule = AgentSchedule { cron_expression: cron.clone(), ..schedule("* * * * *", zone) };
        let next = schedule.next_after(after).unwrap();
        let first = after.as_millis().div_euclid(60_000) + 1;
        for minute in (first..next.as_millis() / 60_000).take(3000) {
            let at = Timestamp::from_millis(minute * 60_000);
            let local = schedule.time_zone.local_time(at);
            let again = schedule.time_zone.first_instant_of(local).unwrap() < at;
            prop_assert!(again || !fits(&cron, local), "{} was due at {}", cron, local);
        }
    }

    /// A daily schedule is due once on every calendar day, whatever the clocks do.
    #[test]
    fn a_daily_schedule_skips_no_day(hour in 0..24_u8, minute in 0..60_u8, zone in zone(), after in moment()) {
        let schedule = schedule(&format!("{minute} {hour} * * *"), zone);
        let mut at = schedule.next_after(after).unwrap();
        let mut day = schedule.time_zone.local_time(at).date();
        for _ in 0..400 {
            let next = schedule.next_after(at).unwrap();
            let next_day = schedule.time_zone.local_time(next).date();
            prop_assert_eq!(next_day, day.tomorrow().unwrap());
            prop_assert!(next.since(at) >= Duration::from_hours(22) && next.since(at) <= Duration::from_hours(26));
            (at, day) = (next, next_day);
        }
    }
}
