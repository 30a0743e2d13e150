//! Recovers from a conversation that Claude Code cannot resume, because it was never saved or was deleted. A new
//! conversation begins with the sidecar's summary of the lost one.

use pilothouse_domain::Usd;
use serde_json::{Value, json};
use tracing::warn;

use super::driver::Driver;
use crate::adapter::AdapterError;
use crate::kit::json::{flag, text};
use crate::kit::notices::detailed_notice;

/// Beginning of Claude Code's error for an unknown conversation.
const NOT_FOUND: &str = "No conversation found with session ID";

/// Whether a line reports that the conversation cannot be resumed.
pub(super) fn is_lost(line: &Value) -> bool {
    let errors = line.get("errors").and_then(Value::as_array);
    text(line, "type") == Some("result")
        && flag(line, "is_error")
        && errors.into_iter().flatten().filter_map(Value::as_str).any(|error| error.starts_with(NOT_FOUND))
}

impl Driver {
    /// The process reports the loss after its start. Ends it, and gives the same messages to another one.
    pub(super) async fn conversation_lost(&mut self) -> Result<(), AdapterError> {
        self.begin_anew().await?;
        self.process_ended().await
    }

    pub(super) async fn begin_anew(&mut self) -> Result<(), AdapterError> {
        let lost = self.file.conversation().id.clone();
        warn!(conversation = lost, "the agent cannot resume its conversation; starting a new one");
        // The rest of the allowance carries over, because the new conversation counts from zero.
        self.allowance.carry_over(self.spent(), Usd::ZERO);
        self.remember(|conversation| *conversation = conversation.renewed()).await?;
        self.translator.begin_anew();
        (self.nearly_full, self.accepts_document) = (None, false);
        let renewed = self.file.conversation();
        let id = renewed.id.clone();
        let notice = detailed_notice(
            "conversation_lost",
            "the earlier conversation cannot be resumed; a new one starts with the task and a summary of the work so far",
            json!({ "lost": lost, "begun": id }),
        );
        Ok(self.events.emit(notice).await?)
    }
}
