//! From journal entries to what the API shows.

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::value::{AgentMessageSource, MessageSource, ToolCallStatus};
use pilothouse_domain::{DomainEvent, SubAgentId, ToolCallId};
use pilothouse_wire::event::{AssistantContent, Content, RawEvent};
use serde_json::Value;

use crate::api::records::{ActivityView, LogChunkView, MessageView, ToolCallView, ToolResultView};

/// The lines that an entry adds to the activity stream.
pub fn activity(entry: &JournalEntry) -> impl Iterator<Item = ActivityView> + '_ {
    let place = move |at: usize| format!("{}.{at}", entry.sequence);
    entry.activity.iter().enumerate().map(move |(at, item)| ActivityView { id: place(at), item: item.clone() })
}

/// The raw event that an entry holds.
pub fn raw_event(entry: &JournalEntry) -> Option<RawEvent> {
    match &entry.cause {
        Cause::Agent { body, .. } => serde_json::from_value(body.clone()).ok(),
        _ => None,
    }
}

fn text(content: &Content) -> (String, bool, Option<String>) {
    match content {
        Content::Blob(blob) => (blob.head.clone(), true, Some(blob.blob.clone())),
        other => (other.text().into_owned(), false, None),
    }
}

/// The message of the conversation that an entry holds.
pub fn message(entry: &JournalEntry) -> Option<MessageView> {
    if let Some((message_id, source, content)) = entry.events.iter().find_map(delivered) {
        return Some(MessageView {
            id: entry.sequence.to_string(),
            message_id: Some(message_id),
            source,
            sub_agent_id: None,
            content,
            thinking: false,
            truncated: false,
            blob: None,
            timestamp: entry.at,
        });
    }
    let (sub_agent_id, content) = match raw_event(entry)? {
        RawEvent::AssistantMessage { content, .. } => (None, content),
        RawEvent::SubagentMessage { subagent_id, content } => (Some(subagent_id), content),
        _ => return None,
    };
    let (said, thinking) = match &content {
        AssistantContent::Text { text } => (text, false),
        AssistantContent::Thinking { text } => (text, true),
        AssistantContent::ToolUse { .. } => return None,
    };
    let (content, truncated, blob) = text(said);
    let source = if sub_agent_id.is_some() { AgentMessageSource::SubAgent } else { AgentMessageSource::Agent };
    Some(MessageView {
        id: entry.sequence.to_string(),
        message_id: None,
        source,
        sub_agent_id,
        content,
        thinking,
        truncated,
        blob,
        timestamp: entry.at,
    })
}

fn delivered(event: &DomainEvent) -> Option<(pilothouse_domain::MessageId, AgentMessageSource, String)> {
    match event {
        DomainEvent::MessageDelivered { message_id, source, content, .. } => {
            let source = match source {
                MessageSource::User => AgentMessageSource::User,
                MessageSource::System => AgentMessageSource::System,
                MessageSource::Webhook => AgentMessageSource::Webhook,
            };
            Some((*message_id, source, content.as_str().to_owned()))
        },
        _ => None,
    }
}

/// The tool call that an entry begins.
pub fn tool_call(entry: &JournalEntry) -> Option<ToolCallView> {
    let (sub_agent_id, content) = match raw_event(entry)? {
        RawEvent::AssistantMessage { content, .. } => (None, content),
        RawEvent::SubagentMessage { subagent_id, content } => (Some(subagent_id), content),
        _ => return None,
    };
    let AssistantContent::ToolUse { tool_call_id, tool_name, input } = content else { return None };
    Some(ToolCallView {
        id: tool_call_id,
        sub_agent_id,
        tool_name,
        input,
        result: None,
        status: ToolCallStatus::Pending,
        started_at: entry.at,
        completed_at: None,
    })
}

/// A result without its call: the call expired, or never arrived.
pub fn orphan(id: ToolCallId, sub_agent_id: Option<SubAgentId>, entry: &JournalEntry) -> ToolCallView {
    ToolCallView {
        id,
        sub_agent_id,
        tool_name: "unknown".to_owned(),
        input: Value::Null,
        result: None,
        status: ToolCallStatus::Pending,
        started_at: entry.at,
        completed_at: None,
    }
}

/// The result that an entry holds, and its call.
pub fn tool_result(entry: &JournalEntry) -> Option<(ToolCallId, Option<SubAgentId>, ToolResultView)> {
    let RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id } = raw_event(entry)? else { return None };
    let (content, truncated, blob) = text(&content);
    Some((tool_call_id, subagent_id, ToolResultView { content, is_error, truncated, blob }))
}

/// The piece of log that an entry holds.
pub fn log_chunk(entry: &JournalEntry) -> Option<LogChunkView> {
    let (stream, content) = match raw_event(entry) {
        Some(RawEvent::LogChunk { stream, content }) => (stream, content),
        _ => entry.events.iter().find_map(|event| match event {
            DomainEvent::DecisionLogged { content } => Some(("decision".to_owned(), content.clone())),
            _ => None,
        })?,
    };
    Some(LogChunkView { sequence_number: entry.sequence, stream, content, recorded_at: entry.at })
}
