//! Translates the agent's session events to raw events.

use pilothouse_agent::event::{CompactionReason, SessionEvent};
use pilothouse_agent::message::{
    AgentMessage, AssistantContent as AgentContent, AssistantMessage, BashExecution, StopReason, ToolCall,
    ToolResultMessage, UserContent,
};
use pilothouse_agent::model::OmittedContent;
use pilothouse_domain::{ToolCallId, TurnId};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, Content};
use pilothouse_wire::keys::sha256_hex;
use serde_json::json;

use crate::kit::notices::{detailed_notice, notice};

/// The driver reacts to session events separately.
pub(super) fn events(event: SessionEvent, turn: Option<&TurnId>) -> Vec<RawEvent> {
    match event {
        SessionEvent::MessageEnd { message: AgentMessage::Assistant(message), .. } => {
            assistant_content(message, turn)
        }
        SessionEvent::MessageEnd { message: AgentMessage::ToolResult(result), .. } => {
            vec![tool_result(result)]
        }
        SessionEvent::MessageEnd { message: AgentMessage::BashExecution(ran), entry_id } => {
            command(ran, &entry_id, turn)
        }
        SessionEvent::AutoRetryStart { attempt, max_attempts, delay, error } => vec![detailed_notice(
            "auto_retry_start",
            format!("a model call failed and is tried again in {:.1} s: {error}", delay.as_secs_f64()),
            json!({ "attempt": attempt, "maxAttempts": max_attempts, "delayMs": delay.as_millis() }),
        )],
        SessionEvent::AutoRetryEnd { success, attempts } => vec![detailed_notice(
            "auto_retry_end",
            if success { "the model answers again" } else { "the model still does not answer" }.to_owned(),
            json!({ "success": success, "attempts": attempts }),
        )],
        SessionEvent::ContentOmitted { content, error } => {
            let what = match content {
                OmittedContent::Images => "images",
                OmittedContent::Thoughts => "thoughts",
            };
            vec![detailed_notice(
                "content_omitted",
                format!(
                    "the model no longer gets earlier {what}, because its provider rejects them: {error}"
                ),
                json!({ "content": what }),
            )]
        }
        SessionEvent::CompactionStart { reason } => vec![detailed_notice(
            "auto_compaction_start",
            format!("the conversation is being summarised: {}", why(reason)),
            json!({ "reason": name(reason) }),
        )],
        SessionEvent::CompactionEnd { reason, tokens_before, result } => vec![detailed_notice(
            "auto_compaction_end",
            match &result {
                Ok(_) => "the conversation is summarised".to_owned(),
                Err(error) => format!("the conversation could not be summarised: {error}"),
            },
            json!({ "reason": name(reason), "tokensBefore": tokens_before, "summary": result.ok() }),
        )],
        _ => Vec::new(),
    }
}

fn assistant_content(message: AssistantMessage, turn: Option<&TurnId>) -> Vec<RawEvent> {
    let block = |assistant_content| {
        let content = match assistant_content {
            AgentContent::Text { text } if text.trim().is_empty() => return None,
            AgentContent::Thinking { thinking, .. } if thinking.trim().is_empty() => return None,
            AgentContent::Text { text } => AssistantContent::Text { text: text.into() },
            AgentContent::Thinking { thinking, .. } => AssistantContent::Thinking { text: thinking.into() },
            AgentContent::ToolCall(ToolCall { id, name, arguments }) => {
                AssistantContent::ToolUse { tool_call_id: call_id(&id), tool_name: name, input: arguments }
            }
        };
        Some(RawEvent::AssistantMessage { content, turn_id: turn.cloned() })
    };
    let stopped = match message.stop_reason {
        StopReason::Length => {
            Some(notice("max_tokens", "the reply was cut off at the limit of its output tokens"))
        }
        StopReason::Refusal => Some(notice("refusal", "the model refused to answer")),
        StopReason::Stop | StopReason::ToolUse | StopReason::Error | StopReason::Aborted => None,
    };
    message.content.into_iter().filter_map(block).chain(stopped).collect()
}

fn tool_result(result: ToolResultMessage) -> RawEvent {
    RawEvent::ToolResult {
        tool_call_id: call_id(&result.tool_call_id),
        content: content(result.content),
        is_error: result.is_error,
        subagent_id: None,
    }
}

/// A command of the user as a tool call.
fn command(ran: BashExecution, entry: &str, turn: Option<&TurnId>) -> Vec<RawEvent> {
    let tool_call_id = call_id(entry);
    let input = json!({ "command": ran.command, "excludedFromContext": ran.exclude_from_context });
    let content =
        AssistantContent::ToolUse { tool_call_id: tool_call_id.clone(), tool_name: "bash".into(), input };
    let is_error = ran.cancelled || ran.exit_code.is_none_or(|code| code != 0);
    vec![
        RawEvent::AssistantMessage { content, turn_id: turn.cloned() },
        RawEvent::ToolResult { tool_call_id, content: ran.output.into(), is_error, subagent_id: None },
    ]
}

/// The provider's id of a call, or a digest of it if it is not valid for the control plane.
pub(super) fn call_id(id: &str) -> ToolCallId {
    ToolCallId::parse(id)
        .or_else(|_| ToolCallId::parse(format!("call-{}", &sha256_hex(id.as_bytes())[..32])))
        .unwrap_or_else(|never| unreachable!("a digest is an id: {never}"))
}

/// Text as a string; with images, a list of blocks in which a placeholder replaces each image.
fn content(blocks: Vec<UserContent>) -> Content {
    let only_text = blocks.iter().all(|block| matches!(block, UserContent::Text { .. }));
    let texts = blocks.into_iter().map(|block| match block {
        UserContent::Text { text } => text,
        UserContent::Image { mime_type, data } => {
            format!("[an image: {mime_type}, {} bytes]", data.len() / 4 * 3)
        }
    });
    let texts: Vec<_> = texts.collect();
    if only_text {
        return Content::Text(texts.join("\n"));
    }
    Content::Json(texts.into_iter().map(|text| json!({ "type": "text", "text": text })).collect())
}

const fn name(reason: CompactionReason) -> &'static str {
    match reason {
        CompactionReason::Threshold => "threshold",
        CompactionReason::Overflow => "overflow",
        CompactionReason::Manual => "manual",
    }
}

const fn why(reason: CompactionReason) -> &'static str {
    match reason {
        CompactionReason::Threshold => "its context window is filling up",
        CompactionReason::Overflow => "it did not fit into the context window",
        CompactionReason::Manual => "it was asked for",
    }
}

#[cfg(test)]
mod tests;
