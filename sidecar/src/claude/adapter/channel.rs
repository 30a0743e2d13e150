//! Control requests: the lines by which adapter and binary ask each other, each with an id that its answer names.

use std::collections::HashMap;

use pilothouse_domain::value::ThinkingLevel;
use serde_json::{Map, Value, json};

use super::super::json::text;
use crate::adapter::Reply;

/// What the adapter has asked, and what waits for the answer.
#[derive(Debug)]
pub(super) enum Asked {
    /// To be what the session needs; nothing is said before.
    Initialize,
    /// To end the turn.
    Interrupt,
    /// To take a message out of its queue: the message's `uuid`.
    CancelMessage(String),
    /// To use another model.
    SetModel(String, Reply),
    /// To think more or less.
    SetThinking(ThinkingLevel, Reply),
    /// What the conversation cost so far.
    Usage,
    /// Something whose answer changes nothing here.
    Other,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub asked: Asked,
    /// What was answered, or why it was refused.
    pub answer: Result<Value, String>,
}

/// The control requests under way.
#[derive(Debug, Default)]
pub(super) struct Channel {
    last: u64,
    asked: HashMap<String, Asked>,
}

impl Channel {
    /// The line that asks; `fields` are those of the request beside its subtype.
    pub(super) fn ask(&mut self, subtype: &str, fields: Value, asked: Asked) -> Value {
        self.last += 1;
        let id = format!("pilothouse-{}", self.last);
        let mut request = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        request.insert("subtype".into(), subtype.into());
        let line = json!({ "type": "control_request", "request_id": id, "request": request });
        self.asked.insert(id, asked);
        line
    }

    /// What an incoming `control_response` answers. None: nothing of this adapter's; the binary echoes the answers that it
    /// is given.
    pub(super) fn answered(&mut self, line: &Value) -> Option<Answered> {
        let response = line.get("response")?;
        let asked = self.asked.remove(text(response, "request_id")?)?;
        let answer = if text(response, "subtype") == Some("error") {
            Err(text(response, "error").unwrap_or("it did not say why").to_owned())
        } else {
            Ok(response.get("response").cloned().unwrap_or(Value::Null))
        };
        Some(Answered { asked, answer })
    }

    /// Whether an answer of that kind is still to come.
    pub(super) fn waits_for(&self, kind: impl Fn(&Asked) -> bool) -> bool {
        self.asked.values().any(kind)
    }

    /// The binary is gone: nothing is answered any more. Commands that waited for it are refused, as their replies are dropped.
    pub(super) fn abandon(&mut self) {
        self.asked.clear();
    }
}

/// The line that answers a request of the binary.
pub(super) fn answer(request: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request, "response": response },
    })
}

/// The line that refuses one.
pub(super) fn refuse(request: &str, error: &str) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": request, "error": error },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_find_what_was_asked_once_and_echoes_find_nothing() {
        let mut channel = Channel::default();
        let line = channel.ask(
            "cancel_async_message",
            json!({ "message_uuid": "u" }),
            Asked::CancelMessage("u".into()),
        );
        assert_eq!(line["request"], json!({ "subtype": "cancel_async_message", "message_uuid": "u" }));
        let id = line["request_id"].as_str().unwrap();
        let answer = json!({ "type": "control_response", "response": {
            "subtype": "success", "request_id": id, "response": { "cancelled": true } } });
        let answered = channel.answered(&answer).unwrap();
        assert!(matches!(answered.asked, Asked::CancelMessage(uuid) if uuid == "u"));
        assert_eq!(answered.answer.unwrap()["cancelled"], true);
        assert!(channel.answered(&answer).is_none());
    }

    #[test]
    fn a_refusal_is_an_error_and_a_dead_binary_answers_nothing() {
        let mut channel = Channel::default();
        let id =
            channel.ask("nonsense", Value::Null, Asked::Other)["request_id"].as_str().unwrap().to_owned();
        let refusal = json!({ "response": { "subtype": "error", "request_id": id, "error": "Unsupported" } });
        assert_eq!(channel.answered(&refusal).unwrap().answer.unwrap_err(), "Unsupported");
        channel.ask("interrupt", Value::Null, Asked::Interrupt);
        assert!(channel.waits_for(|asked| matches!(asked, Asked::Interrupt)));
        channel.abandon();
        assert!(!channel.waits_for(|_| true));
    }
}
