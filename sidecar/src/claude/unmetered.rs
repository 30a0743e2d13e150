//! Model calls that wait until the spend before them is known.

use serde_json::Value;
use tokio::time::Instant;

use crate::kit::json::text;

#[derive(Debug, Default)]
pub(super) struct Unmetered {
    pub hooks: Vec<Value>,
    pub until: Option<Instant>,
}

impl Unmetered {
    /// When the wait ends.
    pub(super) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Discards a request that Claude Code has cancelled.
    pub(super) fn cancelled(&mut self, request: &str) {
        self.hooks.retain(|line| text(line, "request_id") != Some(request));
    }

    /// Discards all requests, because the process has ended.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
