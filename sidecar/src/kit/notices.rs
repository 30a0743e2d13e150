//! Notices: events that inform the owner.

use pilothouse_wire::RawEvent;
use serde_json::Value;

pub(crate) fn notice(name: &str, summary: impl Into<String>) -> RawEvent {
    RawEvent::Notice { name: name.to_owned(), summary: summary.into(), detail: None }
}

pub(crate) fn detailed_notice(name: &str, summary: impl Into<String>, detail: Value) -> RawEvent {
    RawEvent::Notice { name: name.to_owned(), summary: summary.into(), detail: Some(detail) }
}

/// Makes an arbitrary word usable as part of a notice's name.
pub(crate) fn name_part(word: &str, limit: usize) -> String {
    word.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).take(limit).collect()
}
