//! Handles the agent's events: publishes them, counts their usage, and updates the driver's state.

use pilothouse_agent::event::SessionEvent;
use pilothouse_agent::message::AgentMessage;
use pilothouse_domain::value::DraftKind;
use pilothouse_wire::RawEvent;
use tokio::time::Instant;

use super::driver::Driver;
use super::setup::assumed_limits;
use super::usage;
use super::{emit, logs};
use crate::adapter::AdapterError;
use crate::kit::handoff;
use crate::kit::notices::notice;
use crate::kit::turns::DriverExit;
use crate::kit::usage::Window;

impl Driver {
    pub(super) async fn emit(&mut self, event: SessionEvent) -> Result<(), DriverExit> {
        match &event {
            SessionEvent::Injected { tag, .. } => return self.injected(tag).await,
            SessionEvent::ToolExecutionUpdate { tool_call_id, chunk } => {
                self.log(tool_call_id, chunk);
                return Ok(());
            }
            SessionEvent::BashUpdate { chunk } => {
                self.log("", chunk);
                return Ok(());
            }
            SessionEvent::Usage { provider, model, context_tokens, context_window, .. } => {
                let window = Window { tokens: *context_tokens, limit: *context_window };
                return self.record_usage(&format!("{provider}/{model}"), window).await;
            }
            SessionEvent::HandoffRequested => {
                self.document_due = true;
                return Ok(());
            }
            SessionEvent::ModelChange { .. } | SessionEvent::ThinkingLevelChange(_) => {
                let session = self.session()?;
                let mut events = vec![self.setup.settings(session)];
                if matches!(event, SessionEvent::ModelChange { .. }) {
                    let warning = assumed_limits(&session.state().model);
                    events.extend(warning.map(|warning| notice("unknown_model", warning)));
                }
                return Ok(self.events.emit_all(events).await?);
            }
            SessionEvent::TextDelta(text) => {
                self.events.drafts().write(DraftKind::Text, text);
                return Ok(());
            }
            SessionEvent::ThinkingDelta(text) => {
                self.events.drafts().write(DraftKind::Thinking, text);
                return Ok(());
            }
            SessionEvent::AutoRetryStart { .. } => {
                self.retrying = true;
                self.events.drafts().discard();
            }
            SessionEvent::AutoRetryEnd { .. } | SessionEvent::AgentEnd { .. } => self.retrying = false,
            _ => {}
        }
        let mut events = Vec::new();
        if let SessionEvent::MessageEnd { message, .. } = &event {
            match message {
                AgentMessage::ToolResult(result) => events.extend(self.logs.end(&result.tool_call_id)),
                AgentMessage::BashExecution(_) => events.extend(self.logs.end("")),
                AgentMessage::Assistant(message) if self.document_due => {
                    let document = handoff::document(&message.text());
                    events.extend(document.map(RawEvent::HandoffDocument));
                }
                AgentMessage::Assistant(_) | AgentMessage::User(_) => {}
            }
        }
        // The document is published after the message that contains it.
        let published = emit::events(event, self.turn.as_ref());
        let at =
            events.iter().position(|e| matches!(e, RawEvent::HandoffDocument(_))).unwrap_or(events.len());
        events.splice(at..at, published);
        Ok(self.events.emit_all(events).await?)
    }

    fn log(&mut self, call: &str, chunk: &str) {
        if self.stream_output {
            self.logs.push(call, chunk);
            if self.log_due.is_none() && self.logs.waits() {
                self.log_due = Some(Instant::now() + logs::EVERY);
            }
        }
    }

    async fn record_usage(&mut self, model: &str, window: Window) -> Result<(), DriverExit> {
        let state = self.session()?.state();
        let update = usage::update(&state.session_id, &state.meters, model, window)
            .map_err(|e| AdapterError::Agent(e.to_string()))?;
        let mut events: Vec<_> = update.into_iter().collect();
        if self.saved_state.should_warn(window.is_at(self.config.options.context_warn_at_percent))? {
            events.push(window.nearing());
        }
        Ok(self.events.emit_all(events).await?)
    }
}
