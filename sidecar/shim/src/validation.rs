//! Validates received events (S2, "Event validation pipeline"). An event is valid, repaired by the rules of [`Repair`],
//! plain text, a draft, or not usable.

mod fields;

use std::fmt;

use pilothouse_domain::Timestamp;
use serde_json::{Map, Value};

use crate::event::{AdapterEvent, AgentEvent, Draft, Source};

/// A received message by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    Valid(AdapterEvent),
    Repaired(AdapterEvent, Vec<Repair>),
    /// Text that is no JSON object: words of the agent.
    PlainText(String),
    /// A piece of the text that the agent is writing, or why it is none.
    Draft(Result<Draft, String>),
    /// With every reason. `source` has the readable parts of the identity.
    Quarantined {
        source: Source,
        raw: String,
        errors: Vec<String>,
    },
}

impl Received {
    /// `None` for text and drafts, which have no place in the order of events.
    pub const fn source(&self) -> Option<&Source> {
        match self {
            Self::Valid(event) | Self::Repaired(event, _) => Some(&event.source),
            Self::Quarantined { source, .. } => Some(source),
            Self::PlainText(_) | Self::Draft(_) => None,
        }
    }

    /// `None` if it cannot be used as an event.
    pub const fn event(&self) -> Option<&AdapterEvent> {
        match self {
            Self::Valid(event) | Self::Repaired(event, _) => Some(event),
            Self::PlainText(_) | Self::Draft(_) | Self::Quarantined { .. } => None,
        }
    }
}

/// A change that made an event valid. The field is named from the root of the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// An event without an envelope, or an envelope without a field of the source identity.
    Identity(&'static str),
    /// A missing field got its default.
    Default(String),
    /// A number or a boolean was given as text, or text as another value.
    Type(String),
    /// A word of a fixed list was written differently: `High` for `high`.
    Spelling(String),
    /// A number was outside its range.
    Range(String),
    /// One value was given instead of a list.
    Single(String),
    /// The value of an optional field could not be read.
    Dropped(String),
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity(field) => write!(f, "`{field}` was missing in the envelope"),
            Self::Default(field) => write!(f, "`{field}` was missing"),
            Self::Type(field) => write!(f, "`{field}` had another type"),
            Self::Spelling(field) => write!(f, "`{field}` was spelled differently"),
            Self::Range(field) => write!(f, "`{field}` was out of range"),
            Self::Single(field) => write!(f, "`{field}` was not a list"),
            Self::Dropped(field) => write!(f, "`{field}` was left out, because it cannot be read"),
        }
    }
}

/// The first sequence that is none: JSON numbers of many SDKs are exact below it.
const END_OF_SEQUENCES: u64 = 1 << 53;

/// The identity of the sender, for events without a part of it.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub agent_id: &'a str,
    pub run_id: &'a str,
}

pub fn validate(message: &str, expected: Expected<'_>) -> Received {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(message) else {
        return Received::PlainText(message.to_owned());
    };
    if fields.get("type").is_some_and(|name| name == Draft::TYPE) && !fields.contains_key("event") {
        let draft = serde_json::from_value(Value::Object(fields));
        return Received::Draft(draft.map_err(|error| error.to_string()));
    }
    let mut repairs = Vec::new();
    let (mut envelope, mut event) = unwrap_envelope(fields, &mut repairs);
    let source = source(&mut envelope, expected, &mut repairs);
    let mut errors = Vec::new();
    if let Some(Value::Object(event)) = &mut event {
        if event.get("agentId").and_then(Value::as_str).is_none() {
            event.insert("agentId".to_owned(), expected.agent_id.into());
            repairs.push(Repair::Default("agentId".to_owned()));
        }
        fields::normalize(event, &mut repairs, &mut errors);
    } else {
        errors.push("`event` must be an object".to_owned());
    }
    let typed = match event {
        Some(event) if errors.is_empty() => serde_json::from_value::<AgentEvent>(event),
        _ => return Received::Quarantined { source, raw: message.to_owned(), errors },
    };
    match typed {
        Ok(event) if repairs.is_empty() => Received::Valid(AdapterEvent { source, event }),
        Ok(event) => Received::Repaired(AdapterEvent { source, event }, repairs),
        Err(error) => {
            Received::Quarantined { source, raw: message.to_owned(), errors: vec![error.to_string()] }
        }
    }
}

/// Separates an event from its envelope. An event may have none.
fn unwrap_envelope(
    mut fields: Map<String, Value>,
    repairs: &mut Vec<Repair>,
) -> (Map<String, Value>, Option<Value>) {
    if fields.contains_key("type") && !fields.contains_key("event") {
        repairs.push(Repair::Identity("event"));
        let names = ["sourceEventId", "sourceSequence", "sourceOccurredAt", "runId"];
        let envelope = names.iter().filter_map(|name| Some(((*name).to_owned(), fields.remove(*name)?)));
        let envelope = envelope.collect();
        return (envelope, Some(Value::Object(fields)));
    }
    let event = fields.remove("event");
    (fields, event)
}

fn source(envelope: &mut Map<String, Value>, expected: Expected<'_>, repairs: &mut Vec<Repair>) -> Source {
    let mut text = |name: &'static str| match envelope.remove(name) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => {
            repairs.push(Repair::Identity(name));
            None
        }
    };
    let (id, run, occurred_at) = (text("sourceEventId"), text("runId"), text("sourceOccurredAt"));
    let occurred_at = occurred_at.and_then(|text| {
        let time: Option<Timestamp> = text.parse().ok();
        if time.is_none() {
            repairs.push(Repair::Dropped("sourceOccurredAt".to_owned()));
        }
        time
    });
    let sequence = envelope.get("sourceSequence").and_then(|given| match given {
        Value::String(digits) => digits.parse().ok(),
        number => number.as_u64(),
    });
    let sequence = sequence.filter(|sequence| *sequence < END_OF_SEQUENCES);
    if sequence.is_none() {
        repairs.push(Repair::Identity("sourceSequence"));
    }
    let run_id = run.unwrap_or_else(|| expected.run_id.to_owned());
    let derived = || sequence.map_or_else(String::new, |sequence| format!("{run_id}/{sequence}"));
    Source { event_id: id.unwrap_or_else(derived), run_id, sequence, occurred_at }
}

#[cfg(test)]
mod tests;
