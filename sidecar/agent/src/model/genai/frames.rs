//! What a stream says that the crate does not pass on: refusals, why a response failed, and the order of its blocks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;
use tokio::sync::Notify;

use super::layout::Layout;
use crate::message::Usage;

/// Looks at each frame as it comes.
#[derive(Debug, Default)]
pub(super) struct Frames {
    seen: Mutex<Seen>,
    first: Notify,
}

#[derive(Debug, Default)]
struct Seen {
    answers: bool,
    refusal: Option<String>,
    filtered: bool,
    failed: Option<Value>,
    begun: Option<Usage>,
    layout: Layout,
}

impl Frames {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once when the first frame came: the provider answers, if only by thinking.
    pub(super) async fn first(&self) {
        self.first.notified().await;
    }

    /// The words in which the model refused.
    pub(super) fn refusal(&self) -> Option<String> {
        self.seen().refusal.take()
    }

    /// Whether a filter cut the answer off.
    pub(super) fn is_filtered(&self) -> bool {
        self.seen().filtered
    }

    /// What the call took when its answer began; told once.
    pub(super) fn begun(&self) -> Option<Usage> {
        self.seen().begun.take()
    }

    /// A piece of text came.
    pub(super) fn text(&self, piece: &str) {
        self.seen().layout.text(piece);
    }

    /// A piece of a call came.
    pub(super) fn call(&self, id: &str) {
        self.seen().layout.call(id);
    }

    /// The order of the blocks, once.
    pub(super) fn layout(&self) -> Layout {
        std::mem::take(&mut self.seen().layout)
    }

    /// The error of a response that failed.
    pub(super) fn failed(&self) -> Option<Value> {
        self.seen().failed.take()
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        if !std::mem::replace(&mut self.seen().answers, true) {
            self.first.notify_one();
        }
        // Most frames are none of these: they are not parsed twice.
        let interesting = [
            "\"refusal\"",
            "response.refusal.delta",
            "response.failed",
            "response.incomplete",
            "message_start",
            "content_block_start",
            "response.output_item.",
        ];
        if !interesting.iter().any(|name| frame.data.contains(name)) {
            return;
        }
        let Some(data) = frame.json() else { return };
        let mut seen = self.seen();
        let chat = data.pointer("/choices/0/delta/refusal").and_then(Value::as_str);
        match data.get("type").and_then(Value::as_str) {
            Some("response.refusal.delta") => {
                if let Some(delta) = data.get("delta").and_then(Value::as_str) {
                    seen.refusal.get_or_insert_default().push_str(delta);
                }
            }
            Some(
                kind @ ("content_block_start" | "response.output_item.added" | "response.output_item.done"),
            ) => seen.layout.frame(kind, &data),
            Some("message_start") => seen.begun = data.pointer("/message/usage").map(begun),
            Some("response.failed") => seen.failed = data.pointer("/response/error").cloned(),
            Some("response.incomplete") => {
                let reason = data.pointer("/response/incomplete_details/reason").and_then(Value::as_str);
                seen.filtered = reason == Some("content_filter");
            }
            _ => {
                if let Some(delta) = chat {
                    seen.refusal.get_or_insert_default().push_str(delta);
                }
            }
        }
    }
}

/// What Anthropic counts when its answer begins.
fn begun(usage: &Value) -> Usage {
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_input_tokens"),
        cache_write: tokens("cache_creation_input_tokens"),
    }
}
