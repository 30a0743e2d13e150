//! A conversation that the binary cannot take up, since it never wrote it down or somebody removed it: a new one begins, with
//! what the sidecar knows of the lost one.

use pilothouse_wire::RawEvent;
use serde_json::{Value, json};
use tracing::warn;

use super::super::json::{flag, text};
use super::driver::Driver;
use crate::adapter::AdapterError;

/// How the binary begins to say that there is no such conversation.
const NOT_FOUND: &str = "No conversation found with session ID";

/// Whether the binary says that it cannot take up its conversation.
pub(super) fn is_lost(line: &Value) -> bool {
    let errors = line.get("errors").and_then(Value::as_array);
    text(line, "type") == Some("result")
        && flag(line, "is_error")
        && errors.into_iter().flatten().filter_map(Value::as_str).any(|error| error.starts_with(NOT_FOUND))
}

impl Driver {
    /// The process says so after it has begun: it is ended, and another one gets what this one was given.
    pub(super) async fn conversation_lost(&mut self) -> Result<(), AdapterError> {
        self.begin_anew().await?;
        self.process_ended().await
    }

    /// What follows is a new conversation, which its process is told about. People see that it is.
    pub(super) async fn begin_anew(&mut self) -> Result<(), AdapterError> {
        let lost = self.file.conversation().id.clone();
        warn!(conversation = lost, "the agent cannot take its conversation up, a new one begins");
        // What is left of the allowance is left to the new one, which counts from zero.
        self.allowance = self.left();
        self.spent_before = pilothouse_domain::Usd::ZERO;
        self.remember(|conversation| *conversation = conversation.renewed())?;
        self.translator.begin_anew();
        self.nearly_full = None;
        let renewed = self.file.conversation();
        let (id, knows) = (renewed.id.clone(), renewed.earlier.is_some());
        let with = if knows { "with what it was told and what it said last" } else { "with nothing" };
        let notice = RawEvent::Notice {
            name: "conversation_lost".into(),
            summary: format!("the earlier conversation cannot be taken up, a new one begins {with}"),
            detail: Some(json!({ "lost": lost, "begun": id })),
        };
        Ok(self.events.emit(notice).await?)
    }
}
