//! The canonical text of a state: what nobody can tell apart is equal in it. Ids become numbers in the order in which they
//! are met, times become ages in ticks, and what is only recorded is left out. So the aggregates themselves can be explored.

use std::collections::HashMap;
use std::fmt::Write;

use pilothouse_domain::Timestamp;

/// Fields that decide nothing: counters, records, and times of what is over.
const RECORDED: [&str; 13] = [
    "controlVersion",
    "journalSequence",
    "createdAt",
    "updatedAt",
    "startedAt",
    "completedAt",
    "lastTurnAt",
    "turnCount",
    "runs",
    "ordinal",
    "pastRuns",
    "settings",
    "metrics",
];

/// Ages beyond this are all the same: every limit is shorter.
const OLD: i64 = 4;

/// Makes `json` canonical, together with what was made so before.
#[derive(Default)]
pub(crate) struct Canon {
    ids: HashMap<String, usize>,
    /// More fields that decide nothing now.
    pub(crate) leave_out: Vec<&'static str>,
    pub(crate) text: String,
}

impl Canon {
    fn id(&mut self, id: &str) {
        let fresh = self.ids.len();
        let number = *self.ids.entry(id.to_owned()).or_insert(fresh);
        let _ = write!(self.text, "#{number}");
    }

    fn time(&mut self, time: Timestamp, now: Timestamp) {
        let age = (now.as_millis() - time.as_millis()).div_euclid(1000).clamp(-OLD, OLD);
        let _ = write!(self.text, "@{age}");
    }

    /// A string of the text: an id, a time, or itself.
    fn string(&mut self, string: &str, now: Timestamp) {
        let bytes = string.as_bytes();
        if bytes.len() == 36 && bytes[8] == b'-' && bytes[23] == b'-' {
            self.id(string);
        } else if bytes.len() == 24 && bytes[10] == b'T' && bytes[23] == b'Z' {
            self.time(string.parse().unwrap(), now);
        } else {
            self.text.push_str(string);
        }
    }

    /// Appends compact JSON without escapes in its strings.
    pub(crate) fn json(&mut self, json: &str, now: Timestamp) {
        let mut rest = json;
        while let Some(quote) = rest.find('"') {
            self.text.push_str(&rest[..quote]);
            let string = &rest[quote + 1..];
            let end = string.find('"').unwrap();
            let (string, after) = (&string[..end], &string[end + 1..]);
            rest = after;
            if after.starts_with(':') && (RECORDED.contains(&string) || self.leave_out.contains(&string)) {
                rest = skip_value(&after[1..]);
            } else if string == "attempt" {
                // The second is the last that is counted.
                let end = after.find([',', '}']).unwrap();
                let attempt: u8 = after[1..end].parse().unwrap();
                let _ = write!(self.text, "attempt:{}", attempt.min(3));
                rest = &after[end..];
            } else {
                self.string(string, now);
            }
        }
        self.text.push_str(rest);
    }
}

/// What follows the value that `text` begins with.
fn skip_value(text: &str) -> &str {
    let (mut depth, mut quoted) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return &text[at..],
            b'}' | b']' => depth -= 1,
            _ => {}
        }
    }
    ""
}

#[test]
fn what_nobody_can_tell_apart_is_equal() {
    let now: Timestamp = "2026-11-21T20:11:35.000Z".parse().unwrap();
    let one = r#"{"id":"00000000-0000-0000-0000-000000000001","runs":3,"pastRuns":[{"a":"}"}],"at":"2026-11-21T20:11:34.000Z"}"#;
    let two = r#"{"id":"00000000-0000-0000-0000-000000000002","runs":4,"pastRuns":[],"at":"2026-11-21T20:11:34.000Z"}"#;
    let text = |json: &str, now| {
        let mut canon = Canon::default();
        canon.json(json, now);
        canon.text
    };
    assert_eq!(text(one, now), text(two, now));
    assert_ne!(text(one, now), text(one, now + std::time::Duration::from_secs(1)));
}
