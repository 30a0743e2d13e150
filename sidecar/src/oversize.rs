//! Moves large parts of events to blobs, so that each event fits an envelope (decision 6).

use pilothouse_wire::RawEvent;
use pilothouse_wire::envelope::MAX_ENVELOPE_BYTES;
use pilothouse_wire::event::{AssistantContent, BlobRef, Content};
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};

/// Size limit of a body. The rest is for the envelope, its signature, and the escaping when the signed envelope becomes
/// a string in a request.
const MAX_BODY_BYTES: usize = MAX_ENVELOPE_BYTES - 8 * 1024;

/// Bytes of a blob's beginning that stay in the event.
const HEAD_BYTES: usize = 4 * 1024;

/// A log piece of this size fits even if every character is escaped.
pub(crate) const LOG_PIECE_BYTES: usize = 16 * 1024;

/// Content that moves to the blob store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of the bytes in hexadecimal. It is also the key.
    pub sha256: String,
    pub bytes: Vec<u8>,
}

/// Splits or shrinks an event so that each part fits an envelope. Adds the blobs of the parts to `blobs`.
pub fn fit(event: RawEvent, blobs: &mut Vec<Blob>) -> serde_json::Result<Vec<RawEvent>> {
    let json = serde_json::to_string(&event)?;
    if json.len() <= MAX_BODY_BYTES {
        return Ok(vec![event]);
    }
    if let RawEvent::LogChunk { stream, content } = &event {
        let chunk = |piece: &str| RawEvent::LogChunk { stream: stream.clone(), content: piece.to_owned() };
        return Ok(pieces(content, LOG_PIECE_BYTES).map(chunk).collect());
    }
    let smaller = shrink(event.clone(), blobs)?;
    if serde_json::to_string(&smaller)?.len() <= MAX_BODY_BYTES {
        return Ok(vec![smaller]);
    }
    // No part is movable: the whole event becomes a blob, and a notice takes its place.
    blobs.clear();
    let whole = store(json.into_bytes(), blobs);
    Ok(vec![RawEvent::Notice {
        name: "oversized_event".into(),
        summary: format!("a `{}` of {} bytes is too large for a message", event.name(), whole.size),
        detail: Some(json!({ "event": event.name(), "truncated": true, "blob": whole })),
    }])
}

fn shrink(event: RawEvent, blobs: &mut Vec<Blob>) -> serde_json::Result<RawEvent> {
    Ok(match event {
        RawEvent::AssistantMessage { content, turn_id } => {
            RawEvent::AssistantMessage { content: shrink_block(content, blobs)?, turn_id }
        }
        RawEvent::SubagentMessage { subagent_id, content } => {
            RawEvent::SubagentMessage { subagent_id, content: shrink_block(content, blobs)? }
        }
        RawEvent::ToolResult { tool_call_id, content, is_error, subagent_id } => RawEvent::ToolResult {
            tool_call_id,
            content: shrink_content(content, blobs)?,
            is_error,
            subagent_id,
        },
        RawEvent::Notice { name, summary, detail: Some(detail) } => {
            RawEvent::Notice { name, summary, detail: Some(shrink_value(&detail, blobs)?) }
        }
        other => other,
    })
}

fn shrink_block(block: AssistantContent, blobs: &mut Vec<Blob>) -> serde_json::Result<AssistantContent> {
    Ok(match block {
        AssistantContent::Text { text } => AssistantContent::Text { text: shrink_content(text, blobs)? },
        AssistantContent::Thinking { text } => {
            AssistantContent::Thinking { text: shrink_content(text, blobs)? }
        }
        AssistantContent::ToolUse { tool_call_id, tool_name, input } => {
            AssistantContent::ToolUse { tool_call_id, tool_name, input: shrink_value(&input, blobs)? }
        }
    })
}

fn shrink_content(content: Content, blobs: &mut Vec<Blob>) -> serde_json::Result<Content> {
    Ok(match content {
        Content::Text(text) => Content::Blob(store(text.into_bytes(), blobs)),
        Content::Json(value) => Content::Blob(store(serde_json::to_vec(&value)?, blobs)),
        blob @ Content::Blob(_) => blob,
    })
}

fn shrink_value(value: &Value, blobs: &mut Vec<Blob>) -> serde_json::Result<Value> {
    Ok(json!({ "truncated": true, "blob": store(serde_json::to_vec(value)?, blobs) }))
}

fn store(bytes: Vec<u8>, blobs: &mut Vec<Blob>) -> BlobRef {
    let sha256 = sha256_hex(&bytes);
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD_BYTES + 4)]);
    let head = text[..floor_char_boundary(&text, HEAD_BYTES)].to_owned();
    let reference = BlobRef { blob: sha256.clone(), size: bytes.len() as u64, sha256: sha256.clone(), head };
    blobs.push(Blob { sha256, bytes });
    reference
}

fn floor_char_boundary(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn pieces(mut text: &str, most: usize) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(floor_char_boundary(text, most));
        text = rest;
        Some(piece).filter(|p| !p.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(event: RawEvent) -> (Vec<RawEvent>, Vec<Blob>) {
        let mut blobs = Vec::new();
        let events = fit(event, &mut blobs).unwrap();
        for event in &events {
            assert!(serde_json::to_string(event).unwrap().len() <= MAX_BODY_BYTES);
        }
        (events, blobs)
    }

    fn result(content: Content) -> RawEvent {
        RawEvent::ToolResult {
            tool_call_id: "t".parse().unwrap(),
            content,
            is_error: false,
            subagent_id: None,
        }
    }

    #[test]
    fn small_event_is_unchanged() {
        let event = result("short".into());
        assert_eq!(fitted(event.clone()), (vec![event], vec![]));
    }

    #[test]
    fn large_result_moves_to_a_blob_with_a_preview_in_the_event() {
        let text = "ä".repeat(100_000);
        let (events, blobs) = fitted(result(Content::Text(text.clone())));
        let [RawEvent::ToolResult { content: Content::Blob(blob), .. }] = &events[..] else {
            panic!("not a reference: {events:?}")
        };
        assert_eq!((blob.size, blob.sha256.as_str()), (200_000, sha256_hex(text.as_bytes()).as_str()));
        assert!(text.starts_with(&blob.head) && !blob.head.is_empty());
        assert_eq!(blobs[0].bytes, text.as_bytes());
    }

    #[test]
    fn large_log_is_split_without_loss() {
        let content = "€".repeat(60_000);
        let (events, _) = fitted(RawEvent::LogChunk { stream: "agent".into(), content: content.clone() });
        let joined: String = events
            .iter()
            .map(|e| if let RawEvent::LogChunk { content, .. } = e { content.as_str() } else { "" })
            .collect();
        assert_eq!(joined, content);
    }

    #[test]
    fn event_without_a_movable_part_moves_to_a_blob() {
        let event = RawEvent::HandoffDocument(pilothouse_wire::event::HandoffDocument {
            summary: "s".repeat(200_000),
            remaining_work: String::new(),
            key_decisions: None,
        });
        let (events, blobs) = fitted(event.clone());
        assert!(matches!(&events[..], [RawEvent::Notice { name, .. }] if name == "oversized_event"));
        assert_eq!(serde_json::from_slice::<RawEvent>(&blobs[0].bytes).unwrap(), event);
    }
}
