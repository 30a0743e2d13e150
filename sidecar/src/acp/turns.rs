//! Turns: from the prompt to its response and the end of its subagents.

use agent_client_protocol::Error;
use pilothouse_domain::value::{ContextPolicy, SessionOutcome};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use serde_json::Value;

use super::driver::Driver;
use super::prompt::Prompt;
use super::session;
use super::translator::{Handoff, UpdateMode};
use super::waiting::{OwnPrompt, Waiting};
use super::work::{Interrupt, Turn};
use crate::kit::handoff;
use crate::kit::json::text;
use crate::kit::notices::notice;
use crate::kit::turns::{DriverExit, turn_id};

/// In percent of the context window. If a turn ends at a token limit above it, the window counts as full.
const FULL: u64 = 97;
/// The prompt after an outage, if the agent had reacted to the previous prompt.
const CONTINUE: &str = "The model did not answer for some time. Continue where you stopped.";

/// In percent of the context window. The agent is then asked for its handoff document at the end of its turn.
const HANDOFF_AT: u64 = 90;

impl Driver {
    /// Begins a turn with a message or a prompt of the adapter, which withdrawn prompts precede. Starts the agent if it is not running.
    /// If a stop ends the start, the message waits again.
    pub(super) async fn begin_turn(&mut self, waiting: Waiting) -> Result<(), DriverExit> {
        if !self.ensure_running().await? {
            self.messages.waiting.put_back(waiting);
            return Ok(());
        }
        let mut prompt = Prompt::default();
        for OwnPrompt { words, images } in std::mem::take(&mut self.withdrawn) {
            prompt = prompt.followed_by(self.prompt_of(words, &images).await?);
        }
        let own = self.prompt_of(waiting.words().to_owned(), waiting.images()).await?;
        let prompt = prompt.followed_by(own);
        self.turns += 1;
        let id = turn_id(&self.run.to_string(), self.turns).map_err(|e| DriverExit::agent(e.to_string()))?;
        let (message_id, reply) = match waiting {
            Waiting::Message(message, mut reply) => {
                reply.injecting().await?;
                (Some(message.id), Some(reply))
            }
            Waiting::Own(_) => (None, None),
        };
        self.translator.begin_turn(id.clone());
        self.prompts += 1;
        let number = self.prompts;
        let again = self.conversation.introduced.then(|| prompt.clone());
        self.turn = Some(Turn {
            id: id.clone(),
            number,
            interrupt: None,
            again,
            answered: None,
            unread: None,
            waits_for_model: false,
        });
        self.events.emit(RawEvent::TurnStarted { turn_id: id, message_id }).await?;
        self.summarise(&prompt);
        self.prompt(number, prompt).await?;
        if let Some(reply) = reply {
            reply.injected().await?;
        }
        Ok(())
    }

    /// Adds the texts of a prompt to the conversation's summary.
    fn summarise(&mut self, prompt: &Prompt) {
        for text in &prompt.texts {
            self.conversation.summary.record_message(&self.events.redacted(text));
        }
    }

    /// Sends a prompt. A pending introduction precedes its texts.
    async fn prompt(&mut self, number: u64, mut prompt: Prompt) -> Result<(), DriverExit> {
        prompt.texts.splice(0..0, std::mem::take(&mut self.introduction));
        if let Some(turn) = &mut self.turn {
            turn.unread = Some(prompt.clone());
        }
        self.translator.meter.hears(prompt.bytes());
        if let Some(agent) = &mut self.agent {
            agent.process.tools.turn_begins();
        }
        // The agent reads the prompt once its allowance covers a call.
        self.hold_when_spent().await?;
        self.connection()?.prompt(number, session::prompt(&self.conversation.id, &prompt));
        self.conversation.introduced = true;
        self.save_conversation().await
    }

    /// Continues the turn in a new conversation with a summary of this one, which the model's provider rejects.
    async fn prompt_elsewhere(&mut self, prompt: Prompt) -> Result<(), DriverExit> {
        self.end_agent().await;
        self.conversation.refused = true;
        if !self.ensure_running().await? {
            self.keep_prompt(Some(prompt));
            return Ok(());
        }
        self.prompts += 1;
        let number = self.prompts;
        if let Some(turn) = &mut self.turn {
            turn.number = number;
            self.translator.begin_turn(turn.id.clone());
        }
        self.summarise(&prompt);
        self.prompt(number, prompt).await
    }

    /// Handles the response to a prompt, which ends its turn or compaction.
    pub(super) async fn prompted(
        &mut self,
        number: u64,
        response: Result<Value, Error>,
    ) -> Result<(), DriverExit> {
        // Files that the agent has not waited for belong to the turn.
        self.files.finish().await;
        if self.compaction.as_ref().is_some_and(|compaction| compaction.number == number) {
            return self.compacted(response).await;
        }
        if self.turn.as_ref().is_none_or(|turn| turn.number != number) {
            return Ok(());
        }
        match response {
            Ok(response) => self.stopped(&response).await,
            // `Closed` follows, with the reason.
            Err(error) if session::is_gone(&error) => Ok(()),
            Err(error) => self.failed(&error).await,
        }
    }

    async fn stopped(&mut self, response: &Value) -> Result<(), DriverExit> {
        self.outage.answered();
        let mut events = self.close("the turn ended without its result");
        events.extend(self.translator.meter.turn(response));
        self.emit(events).await?;
        let reason = text(response, "stopReason").unwrap_or("end_turn");
        let interrupt = self.turn.as_ref().and_then(|turn| turn.interrupt.as_ref());
        if reason == "cancelled" || interrupt.is_some_and(|interrupt| interrupt.withdrew) {
            return self.interrupted().await;
        }
        // A turn that ended before the interrupt arrived counts as ended normally (decision 17).
        let outcome = match reason {
            "end_turn" => SessionOutcome::Completed,
            "max_turn_requests" => {
                let limit = "the agent stopped at the limit of its requests";
                self.events.emit(notice("max_turn_requests", limit)).await?;
                SessionOutcome::MaxIterations
            }
            "max_tokens" => {
                if self.window_is_at(FULL) && !self.handoff_is_due() {
                    self.events.emit(RawEvent::ContextExhausted {}).await?;
                }
                self.events
                    .emit(notice("max_tokens", "the agent stopped at the limit of its tokens"))
                    .await?;
                SessionOutcome::MaxIterations
            }
            "refusal" => {
                self.events.emit(notice("refusal", "the agent refused to continue")).await?;
                SessionOutcome::Completed
            }
            other => {
                let summary =
                    format!("the agent stopped for an unknown reason: {}", crate::kit::json::one_line(other));
                self.events.emit(notice("stopped", summary)).await?;
                SessionOutcome::Completed
            }
        };
        if let Some(turn) = &mut self.turn {
            turn.answered = Some(outcome);
        }
        self.end_turn_when_subagents_have().await
    }

    /// Completes a turn whose prompt has a response once no subagent is running (decision 18).
    pub(super) async fn end_turn_when_subagents_have(&mut self) -> Result<(), DriverExit> {
        let answered = self.turn.as_ref().and_then(|turn| turn.answered);
        let Some(outcome) = answered.filter(|_| !self.translator.subagents_work()) else { return Ok(()) };
        self.files.finish().await;
        let events = self.translator.end_turn("the turn ended without its result");
        self.emit(events).await?;
        if self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_none()) {
            if self.translator.handoff != Handoff::NotDue {
                return self.hand_over().await;
            }
            if self.handoff_is_due() {
                return self.ask_for_document().await;
            }
        }
        let Some(turn) = self.turn.take() else { return Ok(()) };
        self.terminals.forget_released();
        self.events.emit(RawEvent::TurnCompleted { turn_id: turn.id.clone(), output: None, outcome }).await?;
        if let Some(interrupt) = turn.interrupt {
            self.refuse_waiting(&turn.id).await?;
            return self.confirm(interrupt).await;
        }
        self.next_turn().await
    }

    /// Handles an error response to a prompt, after which the conversation cannot continue.
    async fn failed(&mut self, error: &Error) -> Result<(), DriverExit> {
        let wanted = self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_some());
        let mut events = self.close("the turn failed");
        events.extend(self.translator.end_subagents("the turn failed"));
        self.emit(events).await?;
        if wanted {
            // Some agents respond to a cancelled prompt with an error.
            return self.interrupted().await;
        }
        if self.translator.handoff != Handoff::NotDue {
            // The window may have no room for the document. One is then synthesized (decision 34).
            return self.hand_over().await;
        }
        let again = self.turn.as_mut().and_then(|turn| turn.again.take());
        if let Some(prompt) = again.filter(|_| session::refuses_conversation(error)) {
            return self.prompt_elsewhere(prompt).await;
        }
        if self.turn.is_some() && session::is_outage(error) {
            return self.wait_for_model(error).await;
        }
        self.turn = None;
        let (reason, message) = if session::demands_authentication(error) {
            (
                "auth_required",
                "the agent demands authentication: give it its key or sign in where it runs".to_owned(),
            )
        } else {
            ("prompt_failed", session::failed("session/prompt", error))
        };
        let end = SessionEnd { is_error: true, reason: reason.into(), message: Some(message), output: None };
        self.events.emit(RawEvent::SessionEnd(end)).await?;
        Err(DriverExit::Over)
    }

    /// Keeps the turn open until it is resumed, because the agent's model does not answer.
    async fn wait_for_model(&mut self, error: &Error) -> Result<(), DriverExit> {
        if let Some(turn) = &mut self.turn {
            turn.waits_for_model = true;
        }
        if let Some(delay) = session::requested_delay(error) {
            self.outage.wait_at_least(delay);
        }
        let message = Some(session::failed("session/prompt", error));
        let unavailable = RawEvent::ModelUnavailable { message, retry_at: self.outage.retry_at() };
        self.emit(vec![unavailable]).await
    }

    /// Keeps the turn open until it is resumed, because a stop has ended the start of the agent.
    fn keep_prompt(&mut self, unread: Option<Prompt>) {
        if let Some(turn) = &mut self.turn {
            (turn.waits_for_model, turn.unread) = (true, unread);
        }
    }

    /// Continues a turn that waits for the agent's model: repeats its prompt, or asks to continue if the agent has
    /// reacted to it.
    pub(super) async fn continue_turn(&mut self) -> Result<(), DriverExit> {
        let Some(turn) = self.turn.as_mut().filter(|turn| turn.waits_for_model) else { return Ok(()) };
        turn.waits_for_model = false;
        let unread = turn.unread.take();
        self.prompts += 1;
        let number = self.prompts;
        turn.number = number;
        let id = turn.id.clone();
        // A start replaces the translator.
        if !self.ensure_running().await? {
            self.keep_prompt(unread);
            return Ok(());
        }
        self.translator.begin_turn(id);
        self.prompt(number, unread.unwrap_or_else(|| Prompt::of_text(CONTINUE))).await
    }

    fn window_is_at(&self, percent: u64) -> bool {
        self.translator.meter.percent().is_some_and(|level| level >= percent)
    }

    /// Whether the agent must be asked for its handoff document at the end of its turn.
    fn handoff_is_due(&self) -> bool {
        self.config.options.context_policy == ContextPolicy::Handoff
            && self.translator.handoff == Handoff::NotDue
            && self.window_is_at(HANDOFF_AT)
    }

    /// Continues the turn with the request for the handoff document.
    async fn ask_for_document(&mut self) -> Result<(), DriverExit> {
        let percent = self.translator.meter.percent().map(|percent| percent.to_string());
        self.prompts += 1;
        let number = self.prompts;
        if let Some(turn) = &mut self.turn {
            (turn.number, turn.answered) = (number, None);
            self.translator.begin_turn(turn.id.clone());
        }
        self.translator.handoff = Handoff::Requested;
        self.prompt(number, Prompt::of_text(handoff::request(percent.as_deref()))).await
    }

    /// Ends a conversation whose agent was asked for its handoff document.
    async fn hand_over(&mut self) -> Result<(), DriverExit> {
        self.turn = None;
        let end =
            SessionEnd { is_error: false, reason: handoff::EXHAUSTED.into(), message: None, output: None };
        self.events.emit_all(vec![RawEvent::ContextExhausted {}, RawEvent::SessionEnd(end)]).await?;
        Err(DriverExit::Over)
    }

    fn close(&mut self, why: &str) -> Vec<RawEvent> {
        self.cancel_requests();
        self.translator.end_turn(why)
    }

    pub(super) async fn interrupted(&mut self) -> Result<(), DriverExit> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let mut events = self.close("the turn was interrupted");
        events.extend(self.translator.end_subagents("the turn was interrupted"));
        self.emit(events).await?;
        self.translator.update_mode = UpdateMode::Ignored;
        self.translator.handoff = Handoff::NotDue;
        self.terminals.forget_released();
        let Some(interrupt) = turn.interrupt else {
            // The agent cancelled the turn on its own. The control plane expects an end of the turn.
            let turn_id = turn.id.clone();
            self.events.emit(notice("cancelled", "the agent cancelled its turn on its own")).await?;
            self.events
                .emit(RawEvent::TurnCompleted { turn_id, output: None, outcome: SessionOutcome::Completed })
                .await?;
            return self.next_turn().await;
        };
        // Messages do not follow an interrupted turn (decision 29).
        self.refuse_waiting(&turn.id).await?;
        self.confirm(interrupt).await
    }

    /// Acknowledges an interrupt once no process of the turn's calls is running, whatever the agent reports. Kills an
    /// agent whose calls cannot be ended.
    pub(super) async fn confirm(&mut self, interrupt: Interrupt) -> Result<(), DriverExit> {
        if let Some(agent) = &self.agent
            && agent.process.tools.end(interrupt.in_call).await.is_err()
        {
            self.kill_agent("a command of the agent did not end, so the agent was killed").await?;
        }
        Ok(interrupt.reply.done().await?)
    }

    /// Closes the turn, because the agent has ended.
    pub(super) async fn abandon_turn(&mut self, why: &str) -> Result<(), DriverExit> {
        let mut events = self.close(why);
        events.extend(self.translator.end_subagents(why));
        self.emit(events).await?;
        if let Some(turn) = self.turn.take()
            && let Some(interrupt) = turn.interrupt
        {
            return self.confirm(interrupt).await;
        }
        Ok(())
    }
}
