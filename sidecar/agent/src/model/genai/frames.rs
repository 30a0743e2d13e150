//! Extracts from a stream what the `genai` crate omits: refusals, why a response failed, and the order of its blocks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use genai::chat::{ChatFrameSink, FrameCtx, RawFrameRef};
use serde_json::Value;
use tokio::sync::Notify;

use super::layout::Layout;
use crate::message::Usage;

#[derive(Debug, Default)]
pub(super) struct Frames {
    state: Mutex<StreamState>,
    first: Notify,
}

#[derive(Debug, Default)]
struct StreamState {
    replies: bool,
    refusal: Option<String>,
    filtered: bool,
    failed: Option<Value>,
    begun: Option<Usage>,
    layout: Layout,
}

impl Frames {
    fn state(&self) -> MutexGuard<'_, StreamState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the first frame, which shows that the provider answers, even if the model only thinks. Completes once.
    pub(super) async fn first(&self) {
        self.first.notified().await;
    }

    /// The text with which the model refused.
    pub(super) fn refusal(&self) -> Option<String> {
        self.state().refusal.take()
    }

    /// Whether a filter cut off the reply.
    pub(super) fn is_filtered(&self) -> bool {
        self.state().filtered
    }

    /// Usage at the start of the reply. Returned once.
    pub(super) fn begun(&self) -> Option<Usage> {
        self.state().begun.take()
    }

    pub(super) fn text(&self, piece: &str) {
        self.state().layout.text(piece);
    }

    pub(super) fn call(&self, id: &str) {
        self.state().layout.call(id);
    }

    pub(super) fn layout(&self) -> Layout {
        std::mem::take(&mut self.state().layout)
    }

    /// The error of a failed response.
    pub(super) fn failed(&self) -> Option<Value> {
        self.state().failed.take()
    }
}

impl ChatFrameSink for Frames {
    fn on_frame(&self, _: &FrameCtx, frame: RawFrameRef<'_>) {
        if !std::mem::replace(&mut self.state().replies, true) {
            self.first.notify_one();
        }
        // Most frames are irrelevant and are not parsed twice.
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
        let mut state = self.state();
        let chat = data.pointer("/choices/0/delta/refusal").and_then(Value::as_str);
        match data.get("type").and_then(Value::as_str) {
            Some("response.refusal.delta") => {
                if let Some(delta) = data.get("delta").and_then(Value::as_str) {
                    state.refusal.get_or_insert_default().push_str(delta);
                }
            }
            Some(
                kind @ ("content_block_start" | "response.output_item.added" | "response.output_item.done"),
            ) => state.layout.frame(kind, &data),
            Some("message_start") => state.begun = data.pointer("/message/usage").map(begun),
            Some("response.failed") => state.failed = data.pointer("/response/error").cloned(),
            Some("response.incomplete") => {
                let reason = data.pointer("/response/incomplete_details/reason").and_then(Value::as_str);
                state.filtered = reason == Some("content_filter");
            }
            _ => {
                if let Some(delta) = chat {
                    state.refusal.get_or_insert_default().push_str(delta);
                }
            }
        }
    }
}

/// Anthropic's usage at the start of a reply.
fn begun(usage: &Value) -> Usage {
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Usage {
        input: tokens("input_tokens"),
        output: tokens("output_tokens"),
        cache_read: tokens("cache_read_input_tokens"),
        cache_write: tokens("cache_creation_input_tokens"),
    }
}
