//! The body of an event, parsed once.

use pilothouse_domain::text::cut;
use pilothouse_wire::RawEvent;
use serde::Deserialize as _;
use serde_json::Value;

/// The body of an event that may be malformed.
#[derive(Debug, Clone)]
pub(super) struct EventBody {
    pub(super) text: String,
    /// `null` if the text is not JSON.
    pub(super) value: Value,
    /// The event, or why the text is not one.
    pub(super) event: Result<RawEvent, String>,
}

impl EventBody {
    pub(super) fn parse(text: String) -> Self {
        let value: Value = serde_json::from_str(&text).unwrap_or_default();
        // Only the text yields the place of an error.
        let event = RawEvent::deserialize(&value).or_else(|_| serde_json::from_str(&text));
        Self { text, value, event: event.map_err(|error| cut(&error.to_string(), 1000)) }
    }

    /// The type of the event.
    pub(super) fn kind(&self) -> &str {
        self.value.get("type").and_then(Value::as_str).unwrap_or("unreadable")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_body_has_a_kind_and_the_place_of_its_error() {
        let body = EventBody::parse(r#"{"type": "log_chunk", "stream": 1}"#.to_owned());
        assert_eq!(body.kind(), "log_chunk");
        assert!(body.event.unwrap_err().contains("line 1 column"));
        let body = EventBody::parse("{".to_owned());
        assert_eq!((body.kind(), body.value.is_null(), body.event.is_err()), ("unreadable", true, true));
    }
}
