//! What events mean for the adapter itself before they are told: what a conversation costs, how full its window is, and what
//! the end of a turn is the end of.

use pilothouse_domain::value::{ContextPolicy, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::{AssistantContent, SessionEnd};

use super::conversation::Conversation;
use super::driver::Driver;
use crate::adapter::AdapterError;
use crate::handoff;

/// The most bytes of what the agent said in a turn that are kept to find its document in.
const MOST_SAID: usize = 256 * 1024;
/// How the conversation ends when it is handed over.
const EXHAUSTED: &str = "context_exhausted";

impl Driver {
    /// Tells events, and does what they call for.
    pub(super) async fn emit(&mut self, events: Vec<RawEvent>) -> Result<(), AdapterError> {
        let mut told = Vec::with_capacity(events.len());
        let (mut spent, mut heard) = (false, false);
        for event in events {
            match &event {
                RawEvent::TurnStarted { .. } => self.said.clear(),
                RawEvent::AssistantMessage { content: AssistantContent::Text { text }, .. } => {
                    self.hear(&text.text());
                    heard = true;
                }
                RawEvent::UsageUpdate(_) => spent = true,
                RawEvent::SessionEnd(_) => self.over = true,
                RawEvent::ContextNearingLimit { usage_percent } => {
                    self.nearly_full = Some(usage_percent.clone());
                }
                RawEvent::TurnCompleted { outcome, .. } => {
                    if *outcome == SessionOutcome::BudgetExceeded {
                        // Once its owner raises the cap, a process with the old one could not go on.
                        self.allowance = None;
                        self.restart_due = true;
                    }
                    if let Some(document) = self.document() {
                        told.extend([RawEvent::ContextExhausted {}, RawEvent::HandoffDocument(document)]);
                        told.push(RawEvent::SessionEnd(SessionEnd {
                            is_error: false,
                            reason: EXHAUSTED.into(),
                            message: None,
                            output: None,
                        }));
                        self.over = true;
                        continue;
                    }
                }
                _ => {}
            }
            told.push(event);
        }
        if spent || heard {
            let totals = self.translator.totals().cloned();
            let said = heard.then(|| self.events.redacted(&self.said));
            self.remember(|conversation| {
                if let Some(totals) = totals {
                    conversation.totals = totals;
                }
                if let Some(said) = said {
                    conversation.account.said(&said);
                }
            })?;
        }
        self.events.emit_all(told).await?;
        self.ask_for_document().await
    }

    /// Changes what is remembered of the conversation.
    pub(super) fn remember(&mut self, change: impl FnOnce(&mut Conversation)) -> Result<(), AdapterError> {
        self.file
            .update(change)
            .map_err(|e| AdapterError::Agent(format!("the conversation cannot be kept: {e}")))
    }

    /// The agent is told something that it has to know for as long as the conversation lasts.
    pub(super) fn told(&mut self, message: &str) -> Result<(), AdapterError> {
        let message = self.events.redacted(message);
        self.remember(|conversation| conversation.account.told(&message))
    }

    fn hear(&mut self, words: &str) {
        self.said.push_str(words);
        self.said.push('\n');
        if self.said.len() > MOST_SAID {
            let mut from = self.said.len() - MOST_SAID;
            while !self.said.is_char_boundary(from) {
                from += 1;
            }
            self.said.drain(..from);
        }
    }

    /// The document that the agent wrote in this turn.
    fn document(&self) -> Option<pilothouse_wire::event::HandoffDocument> {
        handoff::document(&self.said)
    }

    /// The window has passed its threshold: where the work is to be handed over, the agent writes its document now, while
    /// there is room for it; in the next turn, when this one has ended with it.
    async fn ask_for_document(&mut self) -> Result<(), AdapterError> {
        if self.config.context_policy != ContextPolicy::Handoff
            || self.handoff_asked
            || !self.translator.main_loop_is_open()
        {
            return Ok(());
        }
        let Some(percent) = self.nearly_full.clone() else { return Ok(()) };
        self.handoff_asked = true;
        self.say(&handoff::request(Some(&percent)), "next").await
    }
}
