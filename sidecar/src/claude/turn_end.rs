//! Inspects events before they are published: tracks the cost and the context window of the conversation, and handles
//! the end of a turn.

use std::time::Duration;

use pilothouse_domain::value::{ContextPolicy, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, HandoffDocument, SessionEnd, UsageUpdate};

use super::conversation::Conversation;
use super::driver::Driver;
use crate::adapter::AdapterError;
use crate::kit::conversation_summary::{ConversationSummary, MAX_LAST_TEXT, end_of};
use crate::kit::handoff;
use crate::kit::json::count;
use crate::kit::usage::Window;

/// Fill level of the context window at which the agent is asked for its handoff document. Claude Code refuses prompts
/// that leave less than 23,000 tokens free, which is 88.5 % of a window of 200,000.
const HANDOFF_AT_PERCENT: u8 = 86;
/// In bytes. The text is kept for finding the handoff document.
const MAX_TURN_TEXT: usize = 256 * 1024;

impl Driver {
    /// Publishes events and reacts to them.
    pub(super) async fn emit(&mut self, events: Vec<RawEvent>) -> Result<(), AdapterError> {
        let mut emitted = Vec::with_capacity(events.len());
        let (mut spent, mut heard) = (false, false);
        for mut event in events {
            match &mut event {
                RawEvent::ModelUnavailable { retry_at, .. } => *retry_at = self.outage.retry_at(),
                RawEvent::Notice { name, detail: Some(retry), .. } if name.as_str() == "api_retry" => {
                    // The result of the last attempt names no delay.
                    if let Some(delay) = count(retry, "retry_delay_ms") {
                        self.outage.wait_at_least(Duration::from_millis(delay));
                    }
                }
                RawEvent::TurnStarted { .. } => {
                    self.turn_text.clear();
                    if let Some(process) = &mut self.process {
                        process.tools.turn_begins();
                    }
                }
                RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
                    self.record_text(&text.text());
                    self.outage.answered();
                    heard = true;
                }
                RawEvent::AssistantMessage { .. } => self.outage.answered(),
                RawEvent::UsageUpdate(usage) => {
                    spent = true;
                    self.record_window(usage);
                }
                RawEvent::SessionEnd(_) => self.has_ended = true,
                RawEvent::ContextExhausted {} => {
                    self.accepts_document = true;
                    emitted.push(event);
                    emitted.extend(self.document().map(RawEvent::HandoffDocument));
                    continue;
                }
                RawEvent::TurnCompleted { outcome, .. } => {
                    if *outcome == SessionOutcome::BudgetExceeded {
                        // A limit of Claude Code, set by extra arguments. It applies to a process.
                        self.restart_due = true;
                    }
                    if let Some(document) = self.document() {
                        emitted.extend([RawEvent::ContextExhausted {}, RawEvent::HandoffDocument(document)]);
                        emitted.push(RawEvent::SessionEnd(SessionEnd {
                            is_error: false,
                            reason: handoff::EXHAUSTED.into(),
                            message: None,
                            output: None,
                        }));
                        self.has_ended = true;
                        continue;
                    }
                }
                _ => {}
            }
            emitted.push(event);
        }
        let noted = emitted.iter().any(ConversationSummary::notes);
        if spent || heard || noted {
            let totals = self.translator.totals().cloned();
            let sink = self.events.clone();
            // More text than is kept, so that the kept part never begins within a secret.
            let reply = heard.then(|| self.events.redacted(end_of(&self.turn_text, 2 * MAX_LAST_TEXT)));
            self.remember(|conversation| {
                if let Some(totals) = totals {
                    conversation.totals = totals;
                }
                if let Some(reply) = reply {
                    conversation.summary.record_reply(&reply);
                }
                for event in &emitted {
                    conversation.summary.take(event, false, |text| sink.redacted(text));
                }
            })
            .await?;
        }
        self.events.emit_all(emitted).await?;
        if spent {
            self.hold_when_spent().await?;
        }
        self.ask_for_document()
    }

    pub(super) async fn remember(
        &mut self,
        change: impl FnOnce(&mut Conversation) + Send,
    ) -> Result<(), AdapterError> {
        if !self.file.change(change) {
            return Ok(());
        }
        let kept = self.events.until_space(|| self.file.save()).await;
        kept.map_err(|e| AdapterError::Agent(format!("failed to save the conversation: {e}")))
    }

    /// Adds a message to the conversation's summary.
    pub(super) async fn record_message(&mut self, message: &str) -> Result<(), AdapterError> {
        let message = self.events.redacted(message);
        self.remember(|conversation| conversation.summary.record_message(&message)).await
    }

    fn record_text(&mut self, words: &str) {
        self.turn_text.push_str(words);
        self.turn_text.push('\n');
        let from = self.turn_text.len() - end_of(&self.turn_text, MAX_TURN_TEXT).len();
        self.turn_text.drain(..from);
    }

    const fn hands_over(&self) -> bool {
        matches!(self.config.options.context_policy, ContextPolicy::Handoff)
    }

    /// Records whether the window of the main agent is so full that a handoff is due.
    fn record_window(&mut self, usage: &UsageUpdate) {
        let Some(reported) = usage.context_window.as_ref().filter(|_| usage.subagent_id.is_none()) else {
            return;
        };
        let window = Window { tokens: reported.usage.total(), limit: reported.model_context_limit };
        self.nearly_full = window.is_at(HANDOFF_AT_PERCENT).then(|| window.percent());
    }

    /// The handoff document in the agent's text of this turn, if the agent was asked for it or its window is full.
    fn document(&self) -> Option<HandoffDocument> {
        handoff::document(&self.turn_text).filter(|_| self.hands_over() && self.accepts_document)
    }

    /// If the window is nearly full and the policy is a handoff, asks the agent for its handoff document while there
    /// is room for it. If the turn has just ended, asks in the next one.
    fn ask_for_document(&mut self) -> Result<(), AdapterError> {
        if !self.hands_over() || self.handoff_requested || !self.translator.main_loop_is_open() {
            return Ok(());
        }
        let Some(percent) = self.nearly_full.clone() else { return Ok(()) };
        (self.handoff_requested, self.accepts_document) = (true, true);
        self.say(&handoff::request(Some(&percent)))
    }
}
