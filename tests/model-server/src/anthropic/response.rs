//! Replies in the format of Anthropic Messages.

use serde_json::{Value, json};

use super::{CALL, THOUGHT};
use crate::{
    reply::{Call, Event, Reply},
    script::{Stop, Tokens},
};

/// A reply without streaming.
pub(crate) fn complete(reply: &Reply) -> Value {
    let mut content = Vec::new();
    if let Some((thinking, signature)) = &reply.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": signature }));
    }
    if let Some(text) = &reply.text {
        content.push(json!({ "type": "text", "text": text }));
    }
    for call in &reply.calls {
        if let Some(says) = &call.says {
            content.push(json!({ "type": "text", "text": says }));
        }
        let input = serde_json::from_str::<Value>(&call.arguments).unwrap_or_else(|_| json!({}));
        content.push(json!({ "type": "tool_use", "id": id(reply, call), "name": call.name, "input": input }));
    }
    json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "model": reply.model,
        "content": content, "stop_reason": stop(reply.stop), "stop_sequence": null, "usage": usage(reply.usage),
    })
}

/// A reply as a stream.
pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let mut begun = usage(reply.usage);
    begun["output_tokens"] = json!(1);
    let message = json!({
        "id": format!("msg_{}", reply.id), "type": "message", "role": "assistant", "model": reply.model,
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": begun,
    });
    let mut events = vec![named("message_start", json!({ "message": message })), named("ping", json!({}))];
    let mut index = 0;
    let mut block = |start: Value, deltas: Vec<Event>| {
        let mut block = vec![named("content_block_start", json!({ "index": index, "content_block": start }))];
        block.extend(deltas.into_iter().map(|delta| indexed(delta, index)));
        block.push(named("content_block_stop", json!({ "index": index })));
        index += 1;
        block
    };
    if let Some((thinking, signature)) = &reply.thinking {
        let mut deltas: Vec<_> =
            reply.pieces(thinking).into_iter().map(|piece| delta("thinking", &piece).piece()).collect();
        deltas.push(delta("signature", signature));
        events.extend(block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas));
    }
    if let Some(text) = &reply.text {
        let deltas = reply.pieces(text).into_iter().map(|piece| delta("text", &piece).piece()).collect();
        events.extend(block(json!({ "type": "text", "text": "" }), deltas));
    }
    for call in &reply.calls {
        if let Some(says) = &call.says {
            let deltas = reply.pieces(says).into_iter().map(|piece| delta("text", &piece).piece()).collect();
            events.extend(block(json!({ "type": "text", "text": "" }), deltas));
        }
        let pieces =
            reply.pieces(&call.arguments).into_iter().map(|piece| delta("input_json", &piece).piece());
        let deltas = std::iter::once(delta("input_json", "")).chain(pieces).collect();
        let start = json!({ "type": "tool_use", "id": id(reply, call), "name": call.name, "input": {} });
        events.extend(block(start, deltas));
    }
    let end = json!({
        "delta": { "stop_reason": stop(reply.stop), "stop_sequence": null }, "usage": usage(reply.usage),
    });
    events.push(named("message_delta", end));
    events.push(named("message_stop", json!({})));
    events
}

pub(crate) fn error_event() -> Event {
    named("error", json!({ "error": { "type": "overloaded_error", "message": "Overloaded" } }))
}

fn named(name: &'static str, mut data: Value) -> Event {
    data["type"] = json!(name);
    Event::named(name, &data)
}

/// A delta whose index is set later.
fn delta(kind: &str, piece: &str) -> Event {
    let field = if kind == "input_json" { "partial_json" } else { kind };
    named("content_block_delta", json!({ "delta": { "type": format!("{kind}_delta"), field: piece } }))
}

fn indexed(mut event: Event, index: usize) -> Event {
    if let Ok(mut data) = serde_json::from_str::<Value>(&event.data) {
        data["index"] = json!(index);
        event.data = data.to_string();
    }
    event
}

fn id(reply: &Reply, call: &Call) -> String {
    let thought = if reply.thinking.is_some() { THOUGHT } else { "" };
    format!("{CALL}{thought}{}", call.id)
}

fn usage(tokens: Tokens) -> Value {
    json!({
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read,
        "cache_creation": { "ephemeral_5m_input_tokens": tokens.cache_write, "ephemeral_1h_input_tokens": 0 },
        "output_tokens": tokens.output,
        "service_tier": "standard",
    })
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::Length => "max_tokens",
        Stop::Refusal | Stop::ContentFilter => "refusal",
    }
}
