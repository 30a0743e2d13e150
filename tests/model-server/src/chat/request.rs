//! Validates requests to Chat Completions with OpenAI's rules.

use serde_json::Value;

use crate::prompt::{InvalidRequest, Prompt, Turn};

pub(crate) fn read(body: &Value) -> Result<Prompt, InvalidRequest> {
    let model = body["model"]
        .as_str()
        .ok_or_else(|| InvalidRequest::invalid("you must provide a model parameter"))?;
    let missing = || InvalidRequest::invalid("Missing required parameter: 'messages'.").at("messages");
    let messages = body["messages"].as_array().ok_or_else(missing)?;
    if messages.is_empty() {
        let words = "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(InvalidRequest::invalid(words).at("messages"));
    }
    let mut prompt = Prompt {
        model: model.to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        tools: tools(&body["tools"])?,
        max_output: body["max_completion_tokens"].as_u64().or_else(|| body["max_tokens"].as_u64()),
        thinks: true,
        wants_usage: body["stream_options"]["include_usage"].as_bool().unwrap_or(false),
        structured: matches!(body["response_format"]["type"].as_str(), Some("json_schema" | "json_object")),
        ..Prompt::default()
    };
    // Calls without results, which no other message may precede.
    let mut open: Vec<&str> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !open.is_empty() {
            return Err(unanswered(&open, place));
        }
        match role {
            "system" | "developer" => {
                if !prompt.system.is_empty() {
                    prompt.system.push('\n');
                }
                prompt.system.push_str(&content(message, place)?);
            }
            "user" => prompt.turns.push(Turn::User(content(message, place)?)),
            "assistant" => {
                open = calls(message, place)?;
                prompt.turns.push(Turn::Assistant);
            }
            "tool" => {
                let id = message["tool_call_id"].as_str().unwrap_or_default();
                let Some(index) = open.iter().position(|call| *call == id) else {
                    let words = "Invalid parameter: messages with role 'tool' must be a response to a preceeding message \
                                 with 'tool_calls'.";
                    return Err(InvalidRequest::invalid(words).at(format!("messages.[{place}].role")));
                };
                open.remove(index);
                prompt.turns.push(Turn::Result { id: id.to_owned(), text: content(message, place)? });
            }
            other => {
                let words = format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and \
                     'developer'."
                );
                return Err(InvalidRequest::invalid(words).at(format!("messages[{place}].role")));
            }
        }
    }
    if open.is_empty() { Ok(prompt) } else { Err(unanswered(&open, messages.len())) }
}

fn unanswered(open: &[&str], place: usize) -> InvalidRequest {
    let words = format!(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The \
         following tool_call_ids did not have response messages: {}",
        open.join(", ")
    );
    InvalidRequest::invalid(words).at(format!("messages.[{place}].role"))
}

/// Fails without content.
fn content(message: &Value, place: usize) -> Result<String, InvalidRequest> {
    match &message["content"] {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) if !parts.is_empty() => {
            let known = ["text", "image_url", "input_audio", "file", "refusal"];
            for (index, part) in parts.iter().enumerate() {
                let kind = part["type"].as_str().unwrap_or_default();
                if !known.contains(&kind) {
                    let words = format!(
                        "Invalid value: '{kind}'. Supported values are: 'text', 'image_url', 'input_audio', 'refusal', 'audio', and 'file'."
                    );
                    return Err(
                        InvalidRequest::invalid(words).at(format!("messages[{place}].content[{index}].type"))
                    );
                }
            }
            Ok(parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"))
        }
        Value::Array(_) => {
            let words = format!(
                "Invalid 'messages[{place}].content': empty array. Expected an array with minimum length 1, but got an empty \
                 array instead."
            );
            Err(InvalidRequest::invalid(words).at(format!("messages[{place}].content")))
        }
        _ => {
            let words = "Invalid value for 'content': expected a string, got null.";
            Err(InvalidRequest::invalid(words).at(format!("messages.[{place}].content")))
        }
    }
}

fn calls(message: &Value, place: usize) -> Result<Vec<&str>, InvalidRequest> {
    let Some(calls) = message["tool_calls"].as_array() else {
        content(message, place)?;
        return Ok(Vec::new());
    };
    if calls.is_empty() {
        let words = format!(
            "Invalid 'messages[{place}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty \
             array instead."
        );
        return Err(InvalidRequest::invalid(words).at(format!("messages[{place}].tool_calls")));
    }
    let mut ids = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        let at = |field: &str| format!("messages[{place}].tool_calls[{index}].{field}");
        let missing = |field: &str| {
            InvalidRequest::invalid(format!("Missing required parameter: '{}'.", at(field))).at(at(field))
        };
        let id = call["id"].as_str().filter(|id| !id.is_empty()).ok_or_else(|| missing("id"))?;
        if call["function"]["name"].as_str().is_none_or(str::is_empty) {
            return Err(missing("function.name"));
        }
        if !call["function"]["arguments"].is_string() {
            let at = at("function.arguments");
            let words = format!("Invalid type for '{at}': expected a string, but got an object instead.");
            return Err(InvalidRequest::invalid(words).at(at));
        }
        if ids.contains(&id) {
            return Err(
                InvalidRequest::invalid(format!("Duplicate value for 'tool_call_id' of '{id}'")).at(at("id"))
            );
        }
        ids.push(id);
    }
    Ok(ids)
}

fn tools(tools: &Value) -> Result<Vec<String>, InvalidRequest> {
    let Some(tools) = tools.as_array() else { return Ok(Vec::new()) };
    if tools.is_empty() {
        let words = "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.";
        return Err(InvalidRequest::invalid(words).at("tools"));
    }
    let mut names = Vec::new();
    for (index, tool) in tools.iter().enumerate() {
        names.push(checked_name(&tool["function"]["name"], &format!("tools[{index}].function.name"))?);
        let parameters = &tool["function"]["parameters"];
        if !parameters.is_null() && parameters["type"] != "object" {
            let words = format!(
                "Invalid schema for function '{}': schema must be a JSON Schema of 'type: \"object\"'.",
                names[index]
            );
            return Err(InvalidRequest::invalid(words).at(format!("tools[{index}].function.parameters")));
        }
    }
    Ok(names)
}

/// Checks the name of a tool by OpenAI's rules.
pub(crate) fn checked_name(name: &Value, at: &str) -> Result<String, InvalidRequest> {
    let name = name.as_str().unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
        let words = format!(
            "Invalid '{at}': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        );
        return Err(InvalidRequest::invalid(words).at(at));
    }
    Ok(name.to_owned())
}
