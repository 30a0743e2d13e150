//! The end of the Claude Code process, and recovery from its death.

use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use tracing::{info, warn};

use super::driver::Driver;
use super::process::Ended;
use crate::adapter::{AdapterError, Refusal};
use crate::kit::conversation_summary::end_of;

/// In bytes of standard error.
const MAX_LAST_WORDS: usize = 1000;

impl Driver {
    /// Ends the process, and leaves nothing of it running. Requests without an answer are refused.
    pub(super) async fn end_process(&mut self) -> Option<Ended> {
        self.backlog.clear();
        self.initializing = None;
        self.control_channel.abandon();
        self.translator.process_ended();
        self.tool_hooks.forget();
        self.permissions.forget();
        self.verdicts.forget();
        self.unmetered.forget();
        self.requests_during_pause.clear();
        let process = self.process.take()?;
        let mut ended = process.end().await;
        ended.last_words =
            ended.last_words.map(|words| end_of(&self.events.redacted(&words), MAX_LAST_WORDS).to_owned());
        info!(status = ?ended.status, "the agent's process has ended");
        Some(ended)
    }

    /// Handles the end of the output: the process ended unexpectedly or crashed.
    pub(super) async fn process_ended(&mut self) -> Result<(), AdapterError> {
        if self.initializing.is_some() {
            return self.ended_at_start().await;
        }
        self.emit_withheld().await?;
        let ended = self.end_process().await;
        if let Some(reply) = self.compacting.take() {
            reply.refuse(Refusal::invalid("the agent's process ended while it compacted")).await?;
        }
        if !self.interrupts.is_empty() {
            // The interrupt ended the process. The conversation can be resumed.
            let events = self.translator.abandon_turn();
            self.emit(events).await?;
            return self.withdraw_written().await;
        }
        let working = self.translator.turn_id().is_some() || self.messages.any_written();
        if !working || self.waits_for_model {
            // Between turns no work is lost: the next message resumes the conversation.
            return Ok(());
        }
        if self.translator.turn_id().is_none() && self.messages.keep_written() {
            // The idle process died before it received the message.
            return self.start_process();
        }
        let why = Self::why(ended.as_ref());
        warn!(why, "the agent's process ended in the middle of its work");
        let mut events = self.translator.finish();
        match events.iter_mut().find_map(|event| match event {
            RawEvent::SessionEnd(end) => Some(end),
            _ => None,
        }) {
            Some(end) => end.message = Some(why),
            None => events.push(RawEvent::SessionEnd(SessionEnd {
                is_error: true,
                reason: "stream_ended".into(),
                message: Some(why),
                output: None,
            })),
        }
        self.emit(events).await?;
        self.has_ended = true;
        Ok(())
    }

    fn why(ended: Option<&Ended>) -> String {
        use std::os::unix::process::ExitStatusExt as _;
        let how = ended.and_then(|ended| ended.status).map_or_else(String::new, |status| {
            match (status.code(), status.signal()) {
                (Some(code @ 129..=192), _) => format!(" by the signal {}", code - 128),
                (Some(code), _) => format!(" with the code {code}"),
                (None, signal) => format!(" by the signal {}", signal.unwrap_or_default()),
            }
        });
        let words = ended.and_then(|ended| ended.last_words.as_deref());
        let words = words.map_or_else(String::new, |words| format!(": {words}"));
        format!("The agent's process ended in the middle of its work{how}{words}")
    }
}
