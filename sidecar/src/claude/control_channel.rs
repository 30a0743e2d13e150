//! Control requests: the adapter and Claude Code send each other requests, each with an id that the response refers
//! to.

use std::collections::HashMap;

use pilothouse_domain::value::ThinkingLevel;
use serde_json::{Map, Value, json};

use crate::adapter::Reply;
use crate::kit::json::text;

/// A request of the adapter, with what it needs to handle the response.
#[derive(Debug)]
pub(super) enum ControlRequest {
    /// Set up the session. Always the first request.
    Initialize,
    /// End the turn.
    Interrupt,
    /// Remove the message with this `uuid` from the queue.
    CancelMessage(String),
    SetModel(String, Reply),
    SetThinking(ThinkingLevel, Reply),
    /// Report the cost of the conversation so far.
    Usage,
    /// A request whose response needs no handling.
    Other,
}

#[derive(Debug)]
pub(super) struct ControlResponse {
    pub request: ControlRequest,
    /// The response, or the error.
    pub result: Result<Value, String>,
}

#[derive(Debug, Default)]
pub(super) struct ControlChannel {
    last: u64,
    pending: HashMap<String, ControlRequest>,
}

impl ControlChannel {
    /// Returns the line of a request. `fields` are its fields besides the subtype.
    pub(super) fn ask(&mut self, subtype: &str, fields: Value, asked: ControlRequest) -> Value {
        self.last += 1;
        let id = format!("pilothouse-{}", self.last);
        let mut request = match fields {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        request.insert("subtype".into(), subtype.into());
        let line = json!({ "type": "control_request", "request_id": id, "request": request });
        self.pending.insert(id, asked);
        line
    }

    /// Matches an incoming `control_response` to its request. `None` if it answers another request: Claude Code echoes
    /// the responses that it receives.
    pub(super) fn take_response(&mut self, line: &Value) -> Option<ControlResponse> {
        let response = line.get("response")?;
        let asked = self.pending.remove(text(response, "request_id")?)?;
        let result = if text(response, "subtype") == Some("error") {
            Err(text(response, "error").unwrap_or("it did not say why").to_owned())
        } else {
            Ok(response.get("response").cloned().unwrap_or(Value::Null))
        };
        Some(ControlResponse { request: asked, result })
    }

    /// Whether a request of that kind has no response yet.
    pub(super) fn waits_for(&self, kind: impl Fn(&ControlRequest) -> bool) -> bool {
        self.pending.values().any(kind)
    }

    /// Discards open requests, because the process has ended. Their commands are refused when the replies are dropped.
    pub(super) fn abandon(&mut self) {
        self.pending.clear();
    }
}

/// The line that answers a request of Claude Code.
pub(super) fn respond(request: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": request, "response": response },
    })
}

/// The line that refuses a request of Claude Code.
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
    fn response_matches_its_request_once_and_echoes_match_none() {
        let mut control_channel = ControlChannel::default();
        let line = control_channel.ask(
            "cancel_async_message",
            json!({ "message_uuid": "u" }),
            ControlRequest::CancelMessage("u".into()),
        );
        assert_eq!(line["request"], json!({ "subtype": "cancel_async_message", "message_uuid": "u" }));
        let id = line["request_id"].as_str().unwrap();
        let response = json!({ "type": "control_response", "response": {
            "subtype": "success", "request_id": id, "response": { "cancelled": true } } });
        let taken = control_channel.take_response(&response).unwrap();
        assert!(matches!(taken.request, ControlRequest::CancelMessage(uuid) if uuid == "u"));
        assert_eq!(taken.result.unwrap()["cancelled"], true);
        assert!(control_channel.take_response(&response).is_none());
    }

    #[test]
    fn a_refusal_is_an_error_and_a_dead_binary_answers_nothing() {
        let mut control_channel = ControlChannel::default();
        let id = control_channel.ask("nonsense", Value::Null, ControlRequest::Other)["request_id"]
            .as_str()
            .unwrap()
            .to_owned();
        let refusal = json!({ "response": { "subtype": "error", "request_id": id, "error": "Unsupported" } });
        assert_eq!(control_channel.take_response(&refusal).unwrap().result.unwrap_err(), "Unsupported");
        control_channel.ask("interrupt", Value::Null, ControlRequest::Interrupt);
        assert!(control_channel.waits_for(|asked| matches!(asked, ControlRequest::Interrupt)));
        control_channel.abandon();
        assert!(!control_channel.waits_for(|_| true));
    }
}
