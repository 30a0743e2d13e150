//! Times in words.

use std::time::Duration;

use pilothouse_domain::Timestamp;

/// The time since `then`: `now`, `12 s ago`, `3 min ago`, `5 h ago`, `2 days ago`.
pub fn ago(then: Timestamp, now: Timestamp) -> String {
    match now.since(then).as_secs() {
        0..=1 => "now".into(),
        seconds => format!("{} ago", rough(seconds)),
    }
}

/// The time until `then`: `in 3 min`, or `overdue`.
pub fn until(then: Timestamp, now: Timestamp) -> String {
    match then.since(now).as_secs() {
        0 => "overdue".into(),
        seconds => format!("in {}", rough(seconds)),
    }
}

fn rough(seconds: u64) -> String {
    match seconds {
        0..=89 => format!("{seconds} s"),
        90..=5399 => format!("{} min", (seconds + 30) / 60),
        5400..=172_799 => format!("{} h", (seconds + 1800) / 3600),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

/// A duration: `0:07`, `12:30`, `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pilothouse_domain::Timestamp;

    use super::{ago, clock, until};

    #[test]
    fn times_are_shown_with_suitable_precision() {
        let then = Timestamp::from_millis(0);
        let after = |seconds: i64| ago(then, Timestamp::from_millis(seconds * 1000));
        assert_eq!(
            [after(-5), after(1), after(45), after(90), after(3599), after(7200), after(200_000)],
            ["now", "now", "45 s ago", "2 min ago", "60 min ago", "2 h ago", "2 days ago"]
        );
        assert_eq!(until(Timestamp::from_millis(600_000), then), "in 10 min");
        assert_eq!(until(then, then), "overdue");
    }

    #[test]
    fn durations_are_shown_like_a_clock() {
        let clock = |seconds| clock(Duration::from_secs(seconds));
        assert_eq!([clock(7), clock(750), clock(3723)], ["0:07", "12:30", "1:02:03"]);
    }
}
