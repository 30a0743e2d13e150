//! W3C trace context. It is passed from a request to everything that follows from it, and never affects a decision.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Value of a `traceparent` header: a trace id, the parent span's id, and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceParent {
    trace: u128,
    span: u64,
    flags: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a traceparent: `00-{{32 hex digits}}-{{16 hex digits}}-{{2 hex digits}}`, ids not all zeros")]
pub struct InvalidTraceParent;

/// Flag of a trace that is recorded.
const SAMPLED: u8 = 1;

impl TraceParent {
    /// A sampled trace context. `None` if an id is zero, which the standard forbids.
    pub const fn new(trace: u128, span: u64) -> Option<Self> {
        if trace == 0 || span == 0 { None } else { Some(Self { trace, span, flags: SAMPLED }) }
    }

    /// The same trace with another parent span. A zero `span`, which is no span id, changes nothing.
    #[must_use]
    pub const fn at(self, span: u64) -> Self {
        if span == 0 { self } else { Self { span, ..self } }
    }

    /// Trace id as 32 hexadecimal digits.
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }

    /// Span id as 16 hexadecimal digits.
    pub fn span_id(self) -> String {
        format!("{:016x}", self.span)
    }

    /// Deserializes an optional field. An invalid value becomes `None`, as a message must not be refused for its trace context.
    pub fn lenient<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Self>, D::Error> {
        let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
        Ok(text.and_then(|text| text.parse().ok()))
    }
}

/// Returns `text` if it consists of exactly `length` lowercase hexadecimal digits.
fn digits(text: &str, length: usize) -> Option<&str> {
    let fits = text.len() == length && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    fits.then_some(text)
}

impl FromStr for TraceParent {
    type Err = InvalidTraceParent;

    fn from_str(text: &str) -> Result<Self, InvalidTraceParent> {
        let read = || {
            let mut parts = text.trim().split('-');
            let version = digits(parts.next()?, 2).filter(|version| *version != "ff")?;
            let trace = u128::from_str_radix(digits(parts.next()?, 32)?, 16).ok()?;
            let span = u64::from_str_radix(digits(parts.next()?, 16)?, 16).ok()?;
            let flags = u8::from_str_radix(digits(parts.next()?, 2)?, 16).ok()?;
            // Later versions may have more parts; version 00 may not.
            let whole = version != "00" || parts.next().is_none();
            (whole && trace != 0 && span != 0).then_some(Self { trace, span, flags })
        };
        read().ok_or(InvalidTraceParent)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl Serialize for TraceParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceParent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for TraceParent {
    fn schema_name() -> Cow<'static, str> {
        "TraceParent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn trace_context_round_trips() {
        let parent: TraceParent = TEXT.parse().unwrap();
        assert_eq!(parent.to_string(), TEXT);
        assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(parent.span_id(), "b7ad6b7169203331");
        assert_eq!(
            serde_json::from_str::<TraceParent>(&serde_json::to_string(&parent).unwrap()).unwrap(),
            parent
        );
        let child = parent.at(5);
        assert_eq!((child.trace_id(), child.span_id().as_str()), (parent.trace_id(), "0000000000000005"));
        assert_eq!(parent.at(0), parent);
    }

    #[test]
    fn invalid_trace_context_is_refused() {
        let zeros = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let upper = TEXT.to_ascii_uppercase();
        let more = format!("{TEXT}-00");
        for text in ["", "00", &zeros, &upper, &more, &TEXT.replace("00-", "ff-"), "00-é"] {
            assert_eq!(text.parse::<TraceParent>(), Err(InvalidTraceParent), "{text}");
        }
        let later = more.replacen("00-", "01-", 1);
        assert!(later.parse::<TraceParent>().is_ok(), "a later version may say more");
        assert!(TraceParent::new(0, 1).is_none() && TraceParent::new(1, 0).is_none());
    }
}
