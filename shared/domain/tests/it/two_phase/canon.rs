//! Canonical text of a state: states that behave the same have the same text. Ids become numbers in the order of their first
//! occurrence, times become ages in ticks, and recorded values that affect nothing are left out. This makes it possible to explore
//! the aggregates themselves.

use std::collections::HashMap;
use std::fmt::Write;

use pilothouse_domain::Timestamp;

/// Fields that affect nothing: counters, records, and times of past events.
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

/// Ages above this are treated as equal, because every limit is shorter.
const OLD: i64 = 4;

/// Makes JSON canonical, together with the parts before it.
#[derive(Default)]
pub(crate) struct Canon {
    ids: HashMap<String, usize>,
    /// Further fields that currently affect nothing.
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

    /// Appends a string: an id, a time, or the string itself.
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

    /// Appends compact JSON whose strings have no escapes.
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
                // Attempts beyond the second are not counted.
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

/// The rest after the value at the start of `text`.
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
fn indistinguishable_states_are_equal() {
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
