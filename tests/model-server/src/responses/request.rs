//! Validates requests to Responses with OpenAI's rules.

use serde_json::Value;

use crate::{
    chat::checked_name,
    prompt::{InvalidRequest, Prompt, Turn},
};

pub(crate) fn read(body: &Value) -> Result<Prompt, InvalidRequest> {
    let missing =
        |name: &str| InvalidRequest::invalid(format!("Missing required parameter: '{name}'.")).at(name);
    let model = body["model"].as_str().ok_or_else(|| missing("model"))?;
    if let Some(id) = body["previous_response_id"].as_str() {
        // This server stores nothing, as with `store: false`.
        let words = format!("Previous response with id '{id}' not found.");
        return Err(InvalidRequest::invalid(words).at("previous_response_id"));
    }
    let mut prompt = Prompt {
        model: model.to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: body["instructions"].as_str().unwrap_or_default().to_owned(),
        tools: tools(&body["tools"])?,
        max_output: body["max_output_tokens"].as_u64(),
        thinks: true,
        wants_usage: true,
        structured: matches!(body["text"]["format"]["type"].as_str(), Some("json_schema" | "json_object")),
        ..Prompt::default()
    };
    let items = match &body["input"] {
        Value::String(text) => {
            prompt.turns.push(Turn::User(text.clone()));
            return Ok(prompt);
        }
        Value::Array(items) if !items.is_empty() => items,
        Value::Array(_) => {
            let words = "Invalid 'input': empty array. Expected an array with minimum length 1.";
            return Err(InvalidRequest::invalid(words).at("input"));
        }
        _ => return Err(missing("input")),
    };
    pairing(items)?;
    for (place, item) in items.iter().enumerate() {
        read_item(item, place, &mut prompt)?;
    }
    Ok(prompt)
}

fn read_item(item: &Value, place: usize, prompt: &mut Prompt) -> Result<(), InvalidRequest> {
    let kind = item["type"].as_str().unwrap_or("message");
    match (kind, item["role"].as_str().unwrap_or_default()) {
        ("message", "system" | "developer") => {
            prompt.system.push_str(&content(item, place)?);
        }
        ("message", "user") => prompt.turns.push(Turn::User(content(item, place)?)),
        ("message", "assistant") => {
            content(item, place)?;
            answered(prompt);
        }
        ("message", other) => {
            let words = format!(
                "Invalid value: '{other}'. Supported values are: 'assistant', 'system', 'developer', and 'user'."
            );
            return Err(InvalidRequest::invalid(words).at(format!("input[{place}].role")));
        }
        ("function_call", _) => {
            if !item["arguments"].is_string() {
                let words = format!("Invalid type for 'input[{place}].arguments': expected a string.");
                return Err(InvalidRequest::invalid(words).at(format!("input[{place}].arguments")));
            }
            answered(prompt);
        }
        ("reasoning", _) => answered(prompt),
        ("function_call_output", _) => {
            let id = item["call_id"].as_str().unwrap_or_default().to_owned();
            let text = match &item["output"] {
                Value::String(text) => text.clone(),
                Value::Array(parts) => texts(parts),
                _ => {
                    let words = format!("Missing required parameter: 'input[{place}].output'.");
                    return Err(InvalidRequest::invalid(words).at(format!("input[{place}].output")));
                }
            };
            prompt.turns.push(Turn::Result { id, text });
        }
        (other, _) => {
            let words = format!("Invalid value: '{other}'. It is no type of an item of the input.");
            return Err(InvalidRequest::invalid(words).at(format!("input[{place}].type")));
        }
    }
    Ok(())
}

/// Consecutive items of one reply are one turn.
fn answered(prompt: &mut Prompt) {
    if prompt.turns.last() != Some(&Turn::Assistant) {
        prompt.turns.push(Turn::Assistant);
    }
}

/// Checks that one output follows each call, and its call precedes each output.
fn pairing(items: &[Value]) -> Result<(), InvalidRequest> {
    let ids = |kind: &'static str| {
        let items = items.iter().enumerate().filter(move |(_, item)| item["type"] == kind);
        items.map(|(place, item)| (place, item["call_id"].as_str().unwrap_or_default()))
    };
    for (place, call) in ids("function_call") {
        if !ids("function_call_output").any(|(after, id)| id == call && after > place) {
            return Err(InvalidRequest::invalid(format!("No tool output found for function call {call}."))
                .at("input"));
        }
    }
    for (place, output) in ids("function_call_output") {
        let calls = ids("function_call").filter(|(before, id)| *id == output && *before < place).count();
        let earlier =
            ids("function_call_output").filter(|(before, id)| *id == output && *before < place).count();
        if calls != 1 || earlier > 0 {
            let words = format!("No tool call found for function call output with call_id {output}.");
            return Err(InvalidRequest::invalid(words).at("input"));
        }
    }
    Ok(())
}

fn content(item: &Value, place: usize) -> Result<String, InvalidRequest> {
    let at = format!("input[{place}].content");
    match &item["content"] {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) if !parts.is_empty() => {
            let expected: &[&str] = match item["role"].as_str() {
                Some("assistant") => &["output_text", "refusal"],
                _ => &["input_text", "input_image", "input_file"],
            };
            let wrong =
                parts.iter().find(|part| !part["type"].as_str().is_some_and(|kind| expected.contains(&kind)));
            if let Some(wrong) = wrong {
                let words = format!(
                    "Invalid value: {}. Supported values are: {}.",
                    wrong["type"],
                    expected.join(", ")
                );
                return Err(InvalidRequest::invalid(words).at(at));
            }
            Ok(texts(parts))
        }
        _ => Err(InvalidRequest::invalid(format!("Missing required parameter: '{at}'.")).at(at)),
    }
}

fn texts(parts: &[Value]) -> String {
    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}

fn tools(tools: &Value) -> Result<Vec<String>, InvalidRequest> {
    let functions =
        tools.as_array().into_iter().flatten().enumerate().filter(|(_, tool)| tool["type"] == "function");
    functions.map(|(index, tool)| checked_name(&tool["name"], &format!("tools[{index}].name"))).collect()
}
