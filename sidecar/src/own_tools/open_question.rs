//! A question to the owner that is no tool call of the agent.

use pilothouse_domain::ToolCallId;
use pilothouse_wire::RawEvent;

use crate::adapter::EventSink;

/// If it is dropped unanswered, its end is published, because an answer would have no effect.
pub(crate) struct OpenQuestion {
    id: ToolCallId,
    events: EventSink,
    is_open: bool,
}

impl OpenQuestion {
    pub(crate) const fn new(id: ToolCallId, events: EventSink) -> Self {
        Self { id, events, is_open: true }
    }

    pub(crate) fn answered(mut self) {
        self.is_open = false;
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let over = RawEvent::ToolResult {
            tool_call_id: self.id.clone(),
            content: "The answer is no longer needed.".to_owned().into(),
            is_error: true,
            subagent_id: None,
        };
        let events = self.events.clone();
        // Without a runtime, the whole process is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { events.emit(over).await });
        }
    }
}
