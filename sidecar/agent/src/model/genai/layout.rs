//! The order of a reply's blocks. The `genai` crate returns thoughts first, all text in one piece, and calls last.
//! Text between two calls would end up before both.

use serde_json::Value;

use crate::message::AssistantContent;

/// The blocks of a reply in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Layout {
    blocks: Vec<Block>,
}

#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// The block's text so far.
    Text(String),
    /// A thought that is sent back later. The `genai` crate preserves the order of these.
    Thinking,
    Call(String),
}

impl Layout {
    /// Handles a frame that may begin a block: `content_block_start` of Anthropic, `response.output_item.added` and,
    /// for thoughts, `.done` of Responses. Chat Completions has no such frames; there the pieces indicate their kind.
    pub(super) fn frame(&mut self, kind: &str, frame: &Value) {
        let text = |pointer: &str| frame.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let block = match (kind, text("/content_block/type"), text("/item/type")) {
            ("content_block_start", "text", _) => Block::Text(text("/content_block/text").to_owned()),
            ("content_block_start", "thinking" | "redacted_thinking", _) => Block::Thinking,
            ("content_block_start", "tool_use", _) => Block::Call(text("/content_block/id").to_owned()),
            ("response.output_item.added", _, "message") => Block::Text(String::new()),
            ("response.output_item.added", _, "function_call") => {
                Block::Call(text("/item/call_id").to_owned())
            }
            ("response.output_item.done", _, "reasoning") if !text("/item/encrypted_content").is_empty() => {
                Block::Thinking
            }
            _ => return,
        };
        self.blocks.push(block);
    }

    pub(super) fn text(&mut self, piece: &str) {
        match self.blocks.last_mut() {
            Some(Block::Text(text)) => text.push_str(piece),
            _ => self.blocks.push(Block::Text(piece.to_owned())),
        }
    }

    pub(super) fn call(&mut self, id: &str) {
        let known = |block: &Block| matches!(block, Block::Call(call) if call == id);
        if !self.blocks.iter().any(known) {
            self.blocks.push(Block::Call(id.to_owned()));
        }
    }

    /// Sorts the blocks by the order in which they began. Keeps the crate's order if the pieces do not match what it
    /// collected.
    pub(super) fn arrange(self, content: Vec<AssistantContent>) -> Vec<AssistantContent> {
        let said: String = self.blocks.iter().filter_map(Block::said).collect();
        let collected: String = content.iter().filter_map(text_of).collect();
        if said != collected {
            return content;
        }
        let (mut thoughts, mut calls) = (Vec::new(), Vec::new());
        for block in content {
            match block {
                AssistantContent::Text { .. } => {}
                AssistantContent::Thinking { .. } => thoughts.push(block),
                AssistantContent::ToolCall(call) => calls.push(call),
            }
        }
        let mut arranged = Vec::with_capacity(self.blocks.len());
        let places = self.blocks.iter().filter(|block| **block == Block::Thinking).count();
        if places != thoughts.len() {
            // Thoughts that are never sent back have no position.
            arranged.append(&mut thoughts);
        }
        let mut thoughts = thoughts.into_iter();
        for block in self.blocks {
            match block {
                Block::Text(text) if text.is_empty() => {}
                Block::Text(text) => arranged.push(AssistantContent::Text { text }),
                Block::Thinking => arranged.extend(thoughts.next()),
                Block::Call(id) => {
                    if let Some(at) = calls.iter().position(|call| call.id == id) {
                        arranged.push(AssistantContent::ToolCall(calls.remove(at)));
                    }
                }
            }
        }
        arranged.extend(calls.into_iter().map(AssistantContent::ToolCall));
        arranged
    }
}

impl Block {
    fn said(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Thinking | Self::Call(_) => None,
        }
    }
}

fn text_of(block: &AssistantContent) -> Option<&str> {
    match block {
        AssistantContent::Text { text } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::ToolCall;

    fn text(text: &str) -> AssistantContent {
        AssistantContent::Text { text: text.into() }
    }

    fn thought(thinking: &str) -> AssistantContent {
        AssistantContent::Thinking { thinking: thinking.into(), signature: Some("s".into()) }
    }

    fn call(id: &str) -> AssistantContent {
        AssistantContent::ToolCall(ToolCall { id: id.into(), name: "t".into(), arguments: json!({}) })
    }

    #[test]
    fn blocks_keep_their_positions_and_none_is_lost() {
        let mut layout = Layout::default();
        let start = |block: Value| json!({ "content_block": block });
        layout.frame("content_block_start", &start(json!({ "type": "thinking" })));
        layout.frame("content_block_start", &start(json!({ "type": "text", "text": "" })));
        layout.text("fir");
        layout.text("st");
        layout.frame("content_block_start", &start(json!({ "type": "tool_use", "id": "a" })));
        layout.call("a");
        layout.frame("content_block_start", &start(json!({ "type": "redacted_thinking" })));
        layout.frame("content_block_start", &start(json!({ "type": "text", "text": "" })));
        layout.text("second");
        layout.call("b");
        let collected =
            vec![thought("one"), thought("two"), text("firstsecond"), call("a"), call("b"), call("c")];
        let expected =
            [thought("one"), text("first"), call("a"), thought("two"), text("second"), call("b"), call("c")];
        assert_eq!(layout.arrange(collected), expected);
    }

    #[test]
    fn inconsistent_blocks_stay_as_collected() {
        let mut layout = Layout::default();
        layout.call("a");
        layout.text("half");
        let collected = vec![text("half of it"), call("a")];
        assert_eq!(layout.arrange(collected.clone()), collected);
    }
}
