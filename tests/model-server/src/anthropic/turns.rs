//! The turns of a request: consecutive messages of the same role are one.

use std::borrow::Cow;

use serde_json::Value;

use crate::prompt::InvalidRequest;

/// Beta feature: system messages between turns.
const SYSTEM_BETWEEN: &str = "mid-conversation-system";

pub(super) struct Merged<'a> {
    /// `user` or `assistant`.
    pub(super) role: &'a str,
    pub(super) place: usize,
    pub(super) content: Vec<Block<'a>>,
}

/// A block with its position.
pub(super) struct Block<'a> {
    /// Position in the provider's notation.
    pub(super) place: String,
    pub(super) block: Cow<'a, Value>,
}

pub(super) fn merged<'a>(messages: &'a [Value], betas: &str) -> Result<Vec<Merged<'a>>, InvalidRequest> {
    let mut turns: Vec<Merged<'a>> = Vec::new();
    for (place, message) in messages.iter().enumerate() {
        let role = match message["role"].as_str() {
            Some(role @ ("user" | "assistant")) => role,
            // Between turns, where it separates no call from its result.
            Some("system") if betas.contains(SYSTEM_BETWEEN) && place > 0 => continue,
            Some(other) => {
                let words = format!(
                    "messages: Unexpected role \"{other}\". The Messages API accepts a top-level `system` parameter, not \
                     \"system\" as an input message role. Allowed roles are \"user\" or \"assistant\""
                );
                return Err(InvalidRequest::invalid(words));
            }
            None => return Err(InvalidRequest::invalid(format!("messages.{place}.role: Field required"))),
        };
        if turns.is_empty() && role == "assistant" {
            return Err(InvalidRequest::invalid("messages: first message must use the \"user\" role"));
        }
        let content = match &message["content"] {
            Value::String(text) => {
                let block = serde_json::json!({ "type": "text", "text": text });
                vec![Block { place: format!("messages.{place}.content"), block: Cow::Owned(block) }]
            }
            Value::Array(blocks) => {
                let at = |(index, block)| Block {
                    place: format!("messages.{place}.content.{index}"),
                    block: Cow::Borrowed(block),
                };
                blocks.iter().enumerate().map(at).collect()
            }
            Value::Null => {
                return Err(InvalidRequest::invalid(format!("messages.{place}.content: Field required")));
            }
            _ => {
                return Err(InvalidRequest::invalid(format!(
                    "messages.{place}.content: Input should be a valid list"
                )));
            }
        };
        if content.is_empty() {
            let words = format!("messages.{place}: {role} messages must have non-empty content");
            return Err(InvalidRequest::invalid(words));
        }
        match turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.content.extend(content),
            None => turns.push(Merged { role, place, content }),
        }
    }
    Ok(turns)
}
