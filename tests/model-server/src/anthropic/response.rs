//! Answers in the format of Anthropic Messages.

use serde_json::{Value, json};

use super::{CALL, THOUGHT};
use crate::{
    answer::{Answer, Call, Event},
    script::{Stop, Tokens},
};

/// An answer without streaming.
pub(crate) fn complete(answer: &Answer) -> Value {
    let mut content = Vec::new();
    if let Some((thinking, signature)) = &answer.thinking {
        content.push(json!({ "type": "thinking", "thinking": thinking, "signature": signature }));
    }
    if let Some(text) = &answer.text {
        content.push(json!({ "type": "text", "text": text }));
    }
    for call in &answer.calls {
        if let Some(says) = &call.says {
            content.push(json!({ "type": "text", "text": says }));
        }
        let input = serde_json::from_str::<Value>(&call.arguments).unwrap_or_else(|_| json!({}));
        content
            .push(json!({ "type": "tool_use", "id": id(answer, call), "name": call.name, "input": input }));
    }
    json!({
        "id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model,
        "content": content, "stop_reason": stop(answer.stop), "stop_sequence": null, "usage": usage(answer.usage),
    })
}

/// An answer as a stream.
pub(crate) fn events(answer: &Answer) -> Vec<Event> {
    let mut begun = usage(answer.usage);
    begun["output_tokens"] = json!(1);
    let message = json!({
        "id": format!("msg_{}", answer.id), "type": "message", "role": "assistant", "model": answer.model,
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
    if let Some((thinking, signature)) = &answer.thinking {
        let mut deltas: Vec<_> =
            answer.pieces(thinking).into_iter().map(|piece| delta("thinking", &piece).piece()).collect();
        deltas.push(delta("signature", signature));
        events.extend(block(json!({ "type": "thinking", "thinking": "", "signature": "" }), deltas));
    }
    if let Some(text) = &answer.text {
        let deltas = answer.pieces(text).into_iter().map(|piece| delta("text", &piece).piece()).collect();
        events.extend(block(json!({ "type": "text", "text": "" }), deltas));
    }
    for call in &answer.calls {
        if let Some(says) = &call.says {
            let deltas = answer.pieces(says).into_iter().map(|piece| delta("text", &piece).piece()).collect();
            events.extend(block(json!({ "type": "text", "text": "" }), deltas));
        }
        let pieces =
            answer.pieces(&call.arguments).into_iter().map(|piece| delta("input_json", &piece).piece());
        let deltas = std::iter::once(delta("input_json", "")).chain(pieces).collect();
        let start = json!({ "type": "tool_use", "id": id(answer, call), "name": call.name, "input": {} });
        events.extend(block(start, deltas));
    }
    let end = json!({
        "delta": { "stop_reason": stop(answer.stop), "stop_sequence": null }, "usage": usage(answer.usage),
    });
    events.push(named("message_delta", end));
    events.push(named("message_stop", json!({})));
    events
}

/// An error within a stream.
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

fn id(answer: &Answer, call: &Call) -> String {
    let thought = if answer.thinking.is_some() { THOUGHT } else { "" };
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
