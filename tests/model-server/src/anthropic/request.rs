//! Validates requests to Anthropic Messages with Anthropic's rules.

use std::collections::BTreeSet;

use serde_json::Value;

use super::pairing::{pairing, thought};
use super::turns::{Block, Merged, merged};
use crate::{
    prompt::{InvalidRequest, Prompt, Turn},
    reply,
};

/// `betas` is the header `anthropic-beta`; `signatures` are those that the script assigned to thoughts.
pub(crate) fn read(
    body: &Value,
    betas: &str,
    signatures: &BTreeSet<String>,
) -> Result<Prompt, InvalidRequest> {
    let model = body["model"].as_str().ok_or_else(|| InvalidRequest::invalid("model: Field required"))?;
    let messages =
        body["messages"].as_array().ok_or_else(|| InvalidRequest::invalid("messages: Field required"))?;
    if messages.is_empty() {
        return Err(InvalidRequest::invalid("messages: at least one message is required"));
    }
    let thinking = body["thinking"]["type"].as_str();
    let tools = tools(&body["tools"])?;
    let mut prompt = Prompt {
        model: model.to_owned(),
        stream: body["stream"].as_bool().unwrap_or(false),
        system: text_of(&body["system"]),
        tools,
        max_output: body["max_tokens"].as_u64(),
        caches: body.to_string().contains("\"cache_control\""),
        thinks: matches!(thinking, Some("enabled" | "adaptive")),
        wants_usage: true,
        structured: !body["output_config"]["format"].is_null(),
        ..Prompt::default()
    };
    let turns = merged(messages, betas)?;
    pairing(&turns)?;
    for turn in &turns {
        blocks(turn, signatures, &mut prompt.turns)?;
    }
    if turns.last().is_some_and(|turn| turn.role == "assistant") {
        return Err(InvalidRequest::invalid(
            "This model does not support assistant message prefill. The conversation must end with a user message.",
        ));
    }
    if prompt.thinks {
        thought(&turns)?;
    }
    Ok(prompt)
}

/// Not required in requests for counting tokens.
pub(crate) fn limits(body: &Value) -> Result<(), InvalidRequest> {
    let max =
        body["max_tokens"].as_u64().ok_or_else(|| InvalidRequest::invalid("max_tokens: Field required"))?;
    if max == 0 {
        return Err(InvalidRequest::invalid("max_tokens: must be greater than or equal to 1"));
    }
    if body["thinking"]["type"] == "enabled" {
        let budget = body["thinking"]["budget_tokens"].as_u64();
        let budget = budget
            .ok_or_else(|| InvalidRequest::invalid("thinking.enabled.budget_tokens: Field required"))?;
        if budget < 1024 {
            let words = "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024";
            return Err(InvalidRequest::invalid(words));
        }
        if budget >= max {
            return Err(InvalidRequest::invalid(
                "`max_tokens` must be greater than `thinking.budget_tokens`.",
            ));
        }
    }
    Ok(())
}

/// Checks the blocks of a turn, and adds their content to `turns`.
fn blocks(
    turn: &Merged<'_>,
    signatures: &BTreeSet<String>,
    turns: &mut Vec<Turn>,
) -> Result<(), InvalidRequest> {
    let mut texts = Vec::new();
    for Block { place, block } in &turn.content {
        let kind = block["type"].as_str().unwrap_or_default();
        match (turn.role, kind) {
            (_, "text") => {
                let text = block["text"].as_str();
                let text = text
                    .ok_or_else(|| InvalidRequest::invalid(format!("{place}.text.text: Field required")))?;
                if text.is_empty() {
                    return Err(InvalidRequest::invalid("messages: text content blocks must be non-empty"));
                }
                texts.push(text);
            }
            ("user", "image") => image(place, &block["source"])?,
            ("user", "document" | "search_result") | ("assistant", "redacted_thinking") => {}
            ("user", "tool_result") => {
                let content = &block["content"];
                if content.as_array().is_some_and(|parts| {
                    parts
                        .iter()
                        .any(|part| part["type"] == "text" && part["text"].as_str().is_none_or(str::is_empty))
                }) {
                    return Err(InvalidRequest::invalid("messages: text content blocks must be non-empty"));
                }
                let id = block["tool_use_id"].as_str().unwrap_or_default().to_owned();
                turns.push(Turn::Result { id, text: text_of(content) });
            }
            ("assistant", "tool_use") => call(place, block)?,
            ("assistant", "thinking") => {
                let thinking = block["thinking"].as_str().unwrap_or_default();
                let signature = block["signature"].as_str().unwrap_or_default();
                if signature != reply::signature(thinking) && !signatures.contains(signature) {
                    let words = format!("{place}: Invalid `signature` in `thinking` block");
                    return Err(InvalidRequest::invalid(words));
                }
            }
            (role, kind) => {
                let words =
                    format!("{place}: Input tag '{kind}' is not expected in a message of role '{role}'");
                return Err(InvalidRequest::invalid(words));
            }
        }
    }
    if turn.role == "assistant" {
        turns.push(Turn::Assistant);
    } else if !texts.is_empty() {
        turns.push(Turn::User(texts.join("\n")));
    }
    Ok(())
}

fn image(place: &str, source: &Value) -> Result<(), InvalidRequest> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let is_known = source["media_type"].as_str().is_some_and(|kind| known.contains(&kind));
    let is_there = source["data"].as_str().is_some_and(|data| !data.is_empty());
    if source["type"] == "base64" && !(is_known && is_there) {
        return Err(InvalidRequest::invalid(format!(
            "{place}.image.source.base64: The image could not be processed"
        )));
    }
    Ok(())
}

fn call(place: &str, block: &Value) -> Result<(), InvalidRequest> {
    if block["id"].as_str().is_none_or(str::is_empty) || block["name"].as_str().is_none_or(str::is_empty) {
        return Err(InvalidRequest::invalid(format!("{place}.tool_use.id: Field required")));
    }
    if !block["input"].is_object() {
        return Err(InvalidRequest::invalid(format!(
            "{place}.tool_use.input: Input should be a valid dictionary"
        )));
    }
    Ok(())
}

fn tools(tools: &Value) -> Result<Vec<String>, InvalidRequest> {
    let mut names = Vec::new();
    for (index, tool) in tools.as_array().into_iter().flatten().enumerate() {
        let name = tool["name"].as_str().unwrap_or_default();
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > 128 || !name.chars().all(fits) {
            let words =
                format!("tools.{index}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'");
            return Err(InvalidRequest::invalid(words));
        }
        // Tools of the provider have their own type and no schema.
        if tool["type"].as_str().is_none_or(|kind| kind == "custom")
            && tool["input_schema"]["type"] != "object"
        {
            let words = format!("tools.{index}.custom.input_schema.type: Input should be 'object'");
            return Err(InvalidRequest::invalid(words));
        }
        if names.iter().any(|other| other == name) {
            return Err(InvalidRequest::invalid("tools: Tool names must be unique."));
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

/// The text of a string or of blocks.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
