//! The body of an event, parsed once.

use pilothouse_domain::Timestamp;
use pilothouse_domain::journal::RepairRule;
use pilothouse_domain::text::cut;
use pilothouse_wire::RawEvent;
use serde::Deserialize as _;
use serde_json::Value;

use super::repair::{Repaired, repair};

#[derive(Debug, Clone)]
pub(super) struct EventBody {
    pub(super) text: String,
    /// `null` if the text is not JSON.
    pub(super) value: Value,
    /// The event, or why the text is not one.
    pub(super) event: Result<RawEvent, String>,
    /// How `value` and `event` were repaired.
    pub(super) repairs: Vec<RepairRule>,
    /// When the event happened, by the clock of the agent or its sidecar.
    pub(super) occurred_at: Option<Timestamp>,
}

impl EventBody {
    pub(super) fn parse(text: String, occurred_at: Option<Timestamp>) -> Self {
        let (value, event) = match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                // Only the text yields the place of an error.
                let event = RawEvent::deserialize(&value).or_else(|_| serde_json::from_str(&text));
                (value, event)
            }
            Err(error) => (Value::Null, Err(error)),
        };
        let (value, event, repairs) = match event {
            Ok(event) => (value, Ok(event), Vec::new()),
            Err(error) => match repair(&value) {
                Some(Repaired { value, event, rules }) => (value, Ok(event), rules),
                None => (value, Err(cut(&error.to_string(), 1000)), Vec::new()),
            },
        };
        Self { text, value, event, repairs, occurred_at }
    }

    pub(super) fn kind(&self) -> &str {
        self.value.get("type").and_then(Value::as_str).unwrap_or("unreadable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_body_has_a_kind_and_a_reason() {
        let body = EventBody::parse(r#"{"type": "log_chunk", "stream": 1}"#.to_owned(), None);
        assert_eq!(body.kind(), "log_chunk");
        assert_eq!(body.event.unwrap_err(), "invalid type: integer `1`, expected a string");
        let body = EventBody::parse("{".to_owned(), None);
        assert_eq!((body.kind(), body.value.is_null()), ("unreadable", true));
        assert_eq!(body.event.unwrap_err(), "EOF while parsing an object at line 1 column 1");
    }
}
