//! Replies in the format of Responses.

use serde_json::{Value, json};

use crate::{
    chat::CALL,
    http_response::epoch_seconds,
    reply::{Event, Reply},
    script::{Stop, Tokens},
};

/// A reply without streaming.
pub(crate) fn complete(reply: &Reply) -> Value {
    let output: Vec<_> = parts(reply).iter().map(Part::done).collect();
    response(reply, status(reply.stop), &output, Some(reply.usage))
}

/// A reply as a stream.
pub(crate) fn events(reply: &Reply) -> Vec<Event> {
    let mut stream = Numbered::default();
    stream.push("response.created", json!({ "response": response(reply, "in_progress", &[], None) }));
    stream.push("response.in_progress", json!({ "response": response(reply, "in_progress", &[], None) }));
    let parts = parts(reply);
    for (index, part) in parts.iter().enumerate() {
        stream.push("response.output_item.added", json!({ "output_index": index, "item": part.begun() }));
        part.stream(reply, index, &mut stream);
        stream.push("response.output_item.done", json!({ "output_index": index, "item": part.done() }));
    }
    let output: Vec<_> = parts.iter().map(Part::done).collect();
    let end = match status(reply.stop) {
        "incomplete" => "response.incomplete",
        _ => "response.completed",
    };
    stream.push(end, json!({ "response": response(reply, status(reply.stop), &output, Some(reply.usage)) }));
    stream.events
}

pub(crate) fn error_event() -> Event {
    let words = "The server had an error while processing your request. Sorry about that!";
    let data = json!({
        "type": "error", "code": "server_error", "message": words, "param": null, "sequence_number": 0,
    });
    Event::named("error", &data)
}

enum Part<'a> {
    Reasoning { id: String, text: &'a str },
    Message { id: String, text: &'a str, refuses: bool },
    Call { id: String, call_id: String, name: &'a str, arguments: &'a str },
}

impl Part<'_> {
    fn begun(&self) -> Value {
        match self {
            Self::Reasoning { id, .. } => json!({ "type": "reasoning", "id": id, "summary": [] }),
            Self::Message { id, .. } => {
                json!({ "type": "message", "id": id, "status": "in_progress", "role": "assistant", "content": [] })
            }
            Self::Call { id, call_id, name, .. } => json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": "", "status": "in_progress",
            }),
        }
    }

    fn done(&self) -> Value {
        match self {
            Self::Reasoning { id, text } => {
                json!({ "type": "reasoning", "id": id, "summary": [{ "type": "summary_text", "text": text }] })
            }
            Self::Message { id, text, refuses } => json!({
                "type": "message", "id": id, "status": "completed", "role": "assistant",
                "content": [content(text, *refuses)],
            }),
            Self::Call { id, call_id, name, arguments } => json!({
                "type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": arguments,
                "status": "completed",
            }),
        }
    }

    fn stream(&self, reply: &Reply, index: usize, stream: &mut Numbered) {
        match self {
            Self::Reasoning { id, text } => {
                let mut say = |name, field: &str, value: Value, is_piece| {
                    let data =
                        json!({ "item_id": id, "output_index": index, "summary_index": 0, field: value });
                    stream.push_as(name, data, is_piece);
                };
                let summary = |text: &str| json!({ "type": "summary_text", "text": text });
                say("response.reasoning_summary_part.added", "part", summary(""), false);
                for piece in reply.pieces(text) {
                    say("response.reasoning_summary_text.delta", "delta", json!(piece), true);
                }
                say("response.reasoning_summary_text.done", "text", json!(text), false);
                say("response.reasoning_summary_part.done", "part", summary(text), false);
            }
            Self::Message { id, text, refuses } => {
                let (delta, done, field) = if *refuses {
                    ("response.refusal.delta", "response.refusal.done", "refusal")
                } else {
                    ("response.output_text.delta", "response.output_text.done", "text")
                };
                let mut say = |name, field: &str, value: Value, is_piece| {
                    let data =
                        json!({ "item_id": id, "output_index": index, "content_index": 0, field: value });
                    stream.push_as(name, data, is_piece);
                };
                say("response.content_part.added", "part", content("", *refuses), false);
                for piece in reply.pieces(text) {
                    say(delta, "delta", json!(piece), true);
                }
                say(done, field, json!(text), false);
                say("response.content_part.done", "part", content(text, *refuses), false);
            }
            Self::Call { id, arguments, .. } => {
                let mut say = |name, field: &str, value: &str, is_piece| {
                    let data = json!({ "item_id": id, "output_index": index, field: value });
                    stream.push_as(name, data, is_piece);
                };
                for piece in reply.pieces(arguments) {
                    say("response.function_call_arguments.delta", "delta", &piece, true);
                }
                say("response.function_call_arguments.done", "arguments", arguments, false);
            }
        }
    }
}

/// Events with consecutive numbers.
#[derive(Default)]
struct Numbered {
    events: Vec<Event>,
}

impl Numbered {
    fn push(&mut self, name: &'static str, data: Value) {
        self.push_as(name, data, false);
    }

    fn push_as(&mut self, name: &'static str, mut data: Value, is_piece: bool) {
        data["type"] = json!(name);
        data["sequence_number"] = json!(self.events.len());
        self.events.push(Event { is_piece, ..Event::named(name, &data) });
    }
}

fn parts(reply: &Reply) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    if let Some((text, _)) = &reply.thinking {
        parts.push(Part::Reasoning { id: format!("rs_{}", reply.id), text });
    }
    if let Some(text) = &reply.text {
        let refuses = reply.stop == Stop::Refusal;
        parts.push(Part::Message { id: format!("msg_{}", reply.id), text, refuses });
    }
    for call in &reply.calls {
        if let Some(text) = &call.says {
            parts.push(Part::Message { id: format!("msg_{}", call.id), text, refuses: false });
        }
        parts.push(Part::Call {
            id: format!("fc_{}", call.id),
            call_id: format!("{CALL}{}", call.id),
            name: &call.name,
            arguments: &call.arguments,
        });
    }
    parts
}

fn content(text: &str, refuses: bool) -> Value {
    if refuses {
        json!({ "type": "refusal", "refusal": text })
    } else {
        json!({ "type": "output_text", "text": text, "annotations": [], "logprobs": [] })
    }
}

fn response(reply: &Reply, status: &str, output: &[Value], usage: Option<Tokens>) -> Value {
    let incomplete = match reply.stop {
        Stop::Length if status == "incomplete" => json!({ "reason": "max_output_tokens" }),
        Stop::ContentFilter if status == "incomplete" => json!({ "reason": "content_filter" }),
        _ => Value::Null,
    };
    json!({
        "id": format!("resp_{}", reply.id), "object": "response", "created_at": epoch_seconds(0), "status": status,
        "error": null, "incomplete_details": incomplete, "model": reply.model, "output": output,
        "parallel_tool_calls": true, "store": false, "usage": usage.map(usage_fields),
    })
}

fn usage_fields(tokens: Tokens) -> Value {
    let input = tokens.input + tokens.cache_read + tokens.cache_write;
    json!({
        "input_tokens": input, "input_tokens_details": { "cached_tokens": tokens.cache_read },
        "output_tokens": tokens.output, "output_tokens_details": { "reasoning_tokens": 0 },
        "total_tokens": input + tokens.output,
    })
}

fn status(stop: Stop) -> &'static str {
    match stop {
        Stop::Length | Stop::ContentFilter => "incomplete",
        Stop::End | Stop::ToolUse | Stop::Refusal => "completed",
    }
}
