//! Replies in the format of Chat Completions.

use serde_json::{Value, json};

use super::CALL;
use crate::{
    http_response::epoch_seconds,
    reply::{Event, Reply},
    script::{Stop, Tokens},
};

/// A reply without streaming.
pub(crate) fn complete(reply: &Reply) -> Value {
    let mut message = json!({ "role": "assistant", "content": null, "refusal": null });
    if let Some((thinking, _)) = &reply.thinking {
        message["reasoning_content"] = json!(thinking);
    }
    let said: Vec<&str> = reply
        .text
        .iter()
        .chain(reply.calls.iter().filter_map(|call| call.says.as_ref()))
        .map(String::as_str)
        .collect();
    if !said.is_empty() {
        message[said_in(reply)] = json!(said.concat());
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": call.arguments });
            json!({ "id": format!("{CALL}{}", call.id), "type": "function", "function": function })
        });
        message["tool_calls"] = calls.collect();
    }
    let choice =
        json!({ "index": 0, "message": message, "logprobs": null, "finish_reason": stop(reply.stop) });
    json!({
        "id": format!("chatcmpl-{}", reply.id), "object": "chat.completion", "created": epoch_seconds(0),
        "model": reply.model, "choices": [choice], "usage": usage(reply.usage), "service_tier": "default",
    })
}

/// A reply as a stream.
pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let chunk = |choices: Value| {
        let mut chunk = json!({
            "id": format!("chatcmpl-{}", reply.id), "object": "chat.completion.chunk", "created": epoch_seconds(0),
            "model": reply.model, "choices": choices,
        });
        if reply.tells_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    };
    let delta = |delta: Value| {
        Event::data(&chunk(json!([{ "index": 0, "delta": delta, "logprobs": null, "finish_reason": null }])))
    };
    let mut events = vec![delta(json!({ "role": "assistant", "content": "", "refusal": null }))];
    if let Some((thinking, _)) = &reply.thinking {
        events.extend(
            reply
                .pieces(thinking)
                .into_iter()
                .map(|piece| delta(json!({ "reasoning_content": piece })).piece()),
        );
    }
    if let Some(text) = &reply.text {
        let field = said_in(reply);
        events.extend(reply.pieces(text).into_iter().map(|piece| delta(json!({ field: piece })).piece()));
    }
    for (index, call) in reply.calls.iter().enumerate() {
        let says = call.says.as_deref().map(|says| reply.pieces(says)).unwrap_or_default();
        events.extend(says.into_iter().map(|piece| delta(json!({ "content": piece })).piece()));
        let part = |part: Value| delta(json!({ "tool_calls": [part] }));
        events.push(part(json!({
            "index": index, "id": format!("{CALL}{}", call.id), "type": "function",
            "function": { "name": call.name, "arguments": "" },
        })));
        events.extend(
            reply
                .pieces(&call.arguments)
                .into_iter()
                .map(|piece| part(json!({ "index": index, "function": { "arguments": piece } })).piece()),
        );
    }
    let end = json!([{ "index": 0, "delta": {}, "logprobs": null, "finish_reason": stop(reply.stop) }]);
    events.push(Event::data(&chunk(end)));
    if reply.tells_usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage(reply.usage);
        events.push(Event::data(&last));
    }
    events.push(Event::data("[DONE]"));
    events
}

pub(crate) fn error_event() -> Event {
    let words = "The server had an error while processing your request. Sorry about that!";
    Event::data(
        &json!({ "error": { "message": words, "type": "server_error", "param": null, "code": null } }),
    )
}

/// The field that contains the text.
fn said_in(reply: &Reply) -> &'static str {
    if reply.stop == Stop::Refusal { "refusal" } else { "content" }
}

fn usage(tokens: Tokens) -> Value {
    let prompt = tokens.input + tokens.cache_read + tokens.cache_write;
    json!({
        "prompt_tokens": prompt, "completion_tokens": tokens.output, "total_tokens": prompt + tokens.output,
        "prompt_tokens_details": { "cached_tokens": tokens.cache_read, "audio_tokens": 0 },
        "completion_tokens_details": { "reasoning_tokens": 0, "audio_tokens": 0 },
    })
}

fn stop(stop: Stop) -> &'static str {
    match stop {
        // Here a refusal is a separate field, and the reply ends like any other.
        Stop::End | Stop::Refusal => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::Length => "length",
        Stop::ContentFilter => "content_filter",
    }
}
