//! Converts a complete reply from the types of the `genai` crate.

use std::collections::HashSet;

use genai::chat::{ContentPart, StopReason as Reason, StreamEnd, Usage as Counted};
use serde_json::Value;

use super::failure::broken;
use super::frames::Frames;
use super::request::{Format, REDACTED};
use crate::message::now;
use crate::message::{AssistantContent, AssistantMessage, StopReason, ToolCall, Usage};
use crate::model::ModelError;

/// The reply at the end of a stream. Without a stop reason, it was cut off.
pub(super) fn complete(
    end: StreamEnd,
    format: Format,
    frames: &Frames,
    provider: String,
    model: String,
) -> Result<AssistantMessage, ModelError> {
    let reason = end.captured_stop_reason.ok_or_else(|| broken("the answer ended before it was complete"))?;
    let parts = end.captured_content.map(genai::chat::MessageContent::into_parts).unwrap_or_default();
    let content = blocks(parts, format, end.captured_reasoning_content);
    let mut content = frames.layout().arrange(content);
    let refused = frames.refusal();
    let calls = content.iter().any(|block| matches!(block, AssistantContent::ToolCall(_)));
    let stop_reason = match reason {
        _ if refused.is_some() => StopReason::Refusal,
        Reason::ContentFilter(_) => StopReason::Refusal,
        Reason::MaxTokens(_) if frames.is_filtered() => StopReason::Refusal,
        Reason::MaxTokens(_) => StopReason::Length,
        _ if calls => StopReason::ToolUse,
        Reason::Completed(_) | Reason::ToolCall(_) | Reason::StopSequence(_) | Reason::Other(_) => {
            StopReason::Stop
        }
    };
    if stop_reason == StopReason::Refusal {
        // Incomplete calls are dropped.
        content.retain(|block| !matches!(block, AssistantContent::ToolCall(_)));
        content.extend(refused.map(|text| AssistantContent::Text { text }));
    }
    unique_ids(&mut content);
    let usage = end.captured_usage.map(|counted| usage(&counted)).unwrap_or_default();
    Ok(AssistantMessage { content, provider, model, usage, stop_reason, error: None, timestamp: now() })
}

fn blocks(parts: Vec<ContentPart>, format: Format, reasoning: Option<String>) -> Vec<AssistantContent> {
    let mut content = Vec::with_capacity(parts.len());
    let mut signature = None;
    let mut shown = false;
    for part in parts {
        match part {
            ContentPart::Text(text) => content.push(AssistantContent::Text { text }),
            ContentPart::ToolCall(call) => content.push(AssistantContent::ToolCall(ToolCall {
                id: call.call_id,
                name: call.fn_name,
                arguments: call.fn_arguments,
            })),
            ContentPart::ThoughtSignature(next) if format == Format::Anthropic => signature = Some(next),
            ContentPart::ThoughtSignature(encrypted) => {
                // The summary covers all thoughts, so only one shows it.
                let thinking = if shown { String::new() } else { reasoning.clone().unwrap_or_default() };
                shown = true;
                content.push(AssistantContent::Thinking { thinking, signature: Some(encrypted) });
            }
            ContentPart::ReasoningContent(thinking) => {
                shown = true;
                content.push(AssistantContent::Thinking { thinking, signature: signature.take() });
            }
            ContentPart::Custom(custom) => {
                if let Some(data) = custom.data.get("data").and_then(Value::as_str) {
                    let signature = Some(format!("{REDACTED}{data}"));
                    content.push(AssistantContent::Thinking { thinking: String::new(), signature });
                }
            }
            ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
        }
    }
    if let Some(thinking) = reasoning.filter(|text| !shown && !text.is_empty()) {
        content.insert(0, AssistantContent::Thinking { thinking, signature: None });
    }
    content
}

/// Assigns ids to calls whose provider gave none. The `genai` crate numbers such calls from the beginning in each
/// reply.
fn unique_ids(content: &mut [AssistantContent]) {
    let mut seen = HashSet::new();
    for block in content {
        let AssistantContent::ToolCall(call) = block else { continue };
        let counted =
            call.id.strip_prefix("call_").is_some_and(|rest| rest.len() <= 3 && rest.parse::<u16>().is_ok());
        if call.id.is_empty() || counted || !seen.insert(call.id.clone()) {
            call.id = format!("call_{}", uuid::Uuid::now_v7().simple());
        }
    }
}

/// The `genai` crate includes cached tokens in the input.
fn usage(counted: &Counted) -> Usage {
    let tokens = |count: Option<i32>| u64::try_from(count.unwrap_or(0)).unwrap_or(0);
    let details = counted.prompt_tokens_details.as_ref();
    let cache_read = tokens(details.and_then(|details| details.cached_tokens));
    let cache_write = tokens(details.and_then(|details| details.cache_creation_tokens));
    Usage {
        input: tokens(counted.prompt_tokens).saturating_sub(cache_read + cache_write),
        output: tokens(counted.completion_tokens),
        cache_read,
        cache_write,
    }
}
