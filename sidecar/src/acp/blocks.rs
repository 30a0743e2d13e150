//! Joins chunks of messages and thoughts to complete blocks. The protocol streams them in pieces of a few characters.

use pilothouse_domain::value::DraftKind;
use pilothouse_wire::event::{AssistantContent, Content};
use serde_json::Value;

use crate::kit::json::text;

/// An incomplete block of this size is published, so that the buffer is bounded.
const MAX_BLOCK_BYTES: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    kind: DraftKind,
    message: Option<String>,
    text: String,
}

impl Blocks {
    /// Adds a chunk. Returns the blocks that are complete with it.
    pub(super) fn push(&mut self, kind: DraftKind, update: &Value) -> Vec<AssistantContent> {
        let Some(content) = update.get("content") else { return Vec::new() };
        let mut whole = Vec::new();
        if text(content, "type") != Some("text") {
            // An image or a resource is a separate block.
            whole.extend(self.flush());
            whole.push(block(kind, Content::Json(content.clone())));
            return whole;
        }
        let piece = text(content, "text").unwrap_or_default();
        let message = text(update, "messageId").map(str::to_owned);
        if self.open.as_ref().is_some_and(|open| open.kind != kind || open.message != message) {
            whole.extend(self.flush());
        }
        let open = self.open.get_or_insert_with(|| Open { kind, message, text: String::new() });
        open.text.push_str(piece);
        if open.text.len() > MAX_BLOCK_BYTES {
            whole.extend(self.flush());
        }
        whole
    }

    /// Ends the current block and returns it.
    pub(super) fn flush(&mut self) -> Option<AssistantContent> {
        let Open { kind, text, .. } = self.open.take()?;
        (!text.is_empty()).then(|| block(kind, Content::Text(text)))
    }
}

fn block(kind: DraftKind, text: Content) -> AssistantContent {
    match kind {
        DraftKind::Text => AssistantContent::Text { text },
        DraftKind::Thinking => AssistantContent::Thinking { text },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chunk(text: &str, message: &str) -> Value {
        json!({"content": {"type": "text", "text": text}, "messageId": message})
    }

    fn said(blocks: impl IntoIterator<Item = AssistantContent>) -> Vec<String> {
        blocks
            .into_iter()
            .map(|block| match block {
                AssistantContent::Text { text } => format!("text {}", text.text()),
                AssistantContent::Thinking { text } => format!("thinking {}", text.text()),
                AssistantContent::ToolUse { .. } => "tool".to_owned(),
            })
            .collect()
    }

    #[test]
    fn chunks_join_until_the_kind_or_the_message_changes() {
        let mut blocks = Blocks::default();
        assert!(blocks.push(DraftKind::Thinking, &chunk("h", "1")).is_empty());
        assert!(blocks.push(DraftKind::Thinking, &chunk("m", "1")).is_empty());
        assert_eq!(said(blocks.push(DraftKind::Text, &chunk("a", "1"))), ["thinking hm"]);
        assert_eq!(said(blocks.push(DraftKind::Text, &chunk("b", "2"))), ["text a"]);
        assert_eq!(said(blocks.flush()), ["text b"]);
        assert_eq!(said(blocks.flush()), Vec::<String>::new());
    }

    #[test]
    fn block_without_text_is_left_out() {
        let mut blocks = Blocks::default();
        assert!(blocks.push(DraftKind::Text, &chunk("", "1")).is_empty());
        assert_eq!(blocks.flush(), None);
    }

    #[test]
    fn other_content_is_separate_and_endless_text_is_split() {
        let mut blocks = Blocks::default();
        blocks.push(DraftKind::Text, &chunk("see ", "1"));
        let picture = json!({"content": {"type": "image", "data": "", "mimeType": "image/png"}});
        assert_eq!(blocks.push(DraftKind::Text, &picture).len(), 2);
        let long = "x".repeat(MAX_BLOCK_BYTES + 1);
        assert_eq!(blocks.push(DraftKind::Text, &chunk(&long, "1")).len(), 1);
        assert_eq!(blocks.flush(), None);
    }
}
