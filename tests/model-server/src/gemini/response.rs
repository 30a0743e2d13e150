//! Replies and errors in the format of `generateContent`.

use serde_json::{Value, json};

use crate::{
    failure::Failure,
    http_response::Refusal,
    prompt::InvalidRequest,
    reply::{Event, Reply},
    script::{Stop, Tokens},
};

/// A reply without streaming.
pub(crate) fn complete(reply: &Reply) -> Value {
    let mut parts: Vec<_> = reply.thinking.iter().map(thought).collect();
    parts.extend(reply.text.iter().map(|text| json!({ "text": text })));
    for call in calls(reply) {
        parts.extend(call);
    }
    response(reply, &parts, true)
}

/// A reply as a stream. Each event is a response with some of the parts.
pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let part = |part: &Value| Event::data(&response(reply, std::slice::from_ref(part), false)).piece();
    let mut events: Vec<_> = reply.thinking.iter().map(|given| part(&thought(given))).collect();
    let pieces = reply.text.as_deref().map(|text| reply.pieces(text)).unwrap_or_default();
    events.extend(pieces.iter().map(|piece| part(&json!({ "text": piece }))));
    for call in calls(reply) {
        events.extend(call.iter().map(part));
    }
    events.push(Event::data(&response(reply, &[json!({ "text": "" })], true)));
    events
}

pub(crate) fn error_event() -> Event {
    Event::data(&body(500, "INTERNAL", "An internal error has occurred."))
}

pub(crate) fn error(refused: &InvalidRequest) -> Refusal {
    let status = if refused.status == 401 { "UNAUTHENTICATED" } else { "INVALID_ARGUMENT" };
    Refusal::new(refused.status, body(refused.status, status, &refused.message))
}

/// `None` for failures within a stream and for those that never end.
pub(crate) fn failure(failure: &Failure, window: u64) -> Option<Refusal> {
    let (code, status, words) = match failure {
        Failure::RateLimited { .. } | Failure::QuotaExceeded { .. } => {
            (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.".to_owned())
        }
        Failure::Overloaded | Failure::ErrorEvent { .. } => {
            (503, "UNAVAILABLE", "The model is overloaded. Please try again later.".to_owned())
        }
        Failure::ServerError => (500, "INTERNAL", "An internal error has occurred.".to_owned()),
        Failure::Unauthorized => (401, "UNAUTHENTICATED", "API key not valid.".to_owned()),
        Failure::Overflow { .. } => {
            let words =
                format!("The input token count exceeds the maximum number of tokens allowed ({window}).");
            (400, "INVALID_ARGUMENT", words)
        }
        Failure::Status { status, body: given, headers } => {
            let made = || body(*status, "UNKNOWN", "The request failed.");
            let mut refusal = Refusal::new(*status, given.clone().unwrap_or_else(made));
            refusal.headers.extend(headers.clone());
            return Some(refusal);
        }
        Failure::Cut { .. } | Failure::Short { .. } | Failure::Hang | Failure::Garbage => return None,
    };
    Some(Refusal::new(code, body(code, status, &words)))
}

fn body(code: u16, status: &str, message: &str) -> Value {
    json!({ "error": { "code": code, "message": message, "status": status } })
}

fn thought((text, signature): &(String, String)) -> Value {
    json!({ "text": text, "thought": true, "thoughtSignature": signature })
}

/// The parts of each call: the text before it, and the call.
fn calls(reply: &Reply) -> impl Iterator<Item = Vec<Value>> {
    reply.calls.iter().map(|call| {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
        let said = call.says.iter().map(|text| json!({ "text": text }));
        let made = json!({ "functionCall": { "id": call.id, "name": call.name, "args": arguments } });
        said.chain([made]).collect()
    })
}

fn response(reply: &Reply, parts: &[Value], is_last: bool) -> Value {
    let mut candidate = json!({ "index": 0, "content": { "role": "model", "parts": parts } });
    let mut response =
        json!({ "modelVersion": reply.model, "responseId": reply.id, "usageMetadata": usage(reply.usage) });
    if is_last {
        candidate["finishReason"] = json!(stop(reply.stop));
    }
    response["candidates"] = json!([candidate]);
    response
}

fn usage(tokens: Tokens) -> Value {
    let prompt = tokens.input + tokens.cache_read + tokens.cache_write;
    json!({
        "promptTokenCount": prompt, "candidatesTokenCount": tokens.output, "totalTokenCount": prompt + tokens.output,
        "cachedContentTokenCount": tokens.cache_read,
    })
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End | Stop::ToolUse => "STOP",
        Stop::Length => "MAX_TOKENS",
        Stop::Refusal | Stop::ContentFilter => "SAFETY",
    }
}
