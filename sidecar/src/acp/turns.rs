//! Turns: a prompt is one, from its sending to its answer and the end of its subagents.

use agent_client_protocol::Error;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::SessionOutcome;
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::SessionEnd;
use serde_json::Value;
use tokio::time::Instant;

use super::driver::{Break, Driver};
use super::json::text;
use super::session::{self, notice};
use super::translator::Listening;
use crate::adapter::{Message, MessageReply, Reply};

/// Percent of the context window at which a turn that ended at a limit of tokens ended because the window is full.
const FULL: u64 = 97;

/// The turn that runs.
pub(super) struct Turn {
    pub(super) id: TurnId,
    /// The prompt whose answer ends it.
    pub(super) number: u64,
    /// Who wants it to end, and until when the agent may take.
    pub(super) interrupt: Option<(Reply, Instant)>,
    /// The prompt is answered; only subagents keep the turn open (ruling 18).
    answered: Option<SessionOutcome>,
}

impl Turn {
    /// Whether its prompt is answered.
    pub(super) const fn is_answered(&self) -> bool {
        self.answered.is_some()
    }

    /// Whether it is to end, or is being waited for: nobody is asked for it any more.
    pub(super) const fn is_ending(&self) -> bool {
        self.interrupt.is_some() || self.answered.is_some()
    }
}

impl Driver {
    /// Begins a turn with these words, for this message. An agent that is not running is started for it.
    pub(super) async fn begin_turn(
        &mut self,
        mut texts: Vec<String>,
        message: Option<(Message, MessageReply)>,
    ) -> Result<(), Break> {
        self.ensure_running().await?;
        self.turns += 1;
        let id = TurnId::parse(format!("{}.{}", self.run, self.turns));
        let id = id.map_err(|e| Break::agent(e.to_string()))?;
        let message_id = message.as_ref().map(|(message, _)| message.id);
        let reply = match message {
            Some((_, mut reply)) => {
                reply.injecting().await?;
                Some(reply)
            }
            None => None,
        };
        self.translator.begin_turn(id.clone());
        self.prompts += 1;
        let number = self.prompts;
        self.turn = Some(Turn { id: id.clone(), number, interrupt: None, answered: None });
        self.events.emit(RawEvent::TurnStarted { turn_id: id, message_id }).await?;
        if !self.introduction.is_empty() {
            texts.splice(0..0, std::mem::take(&mut self.introduction));
        }
        self.connection()?.prompt(number, session::prompt(&self.conversation.id, &texts));
        if !self.conversation.introduced {
            self.conversation.introduced = true;
            self.keep()?;
        }
        if let Some(reply) = reply {
            reply.injected().await?;
        }
        Ok(())
    }

    /// The answer to a prompt: its turn, or the compaction that it was, is over.
    pub(super) async fn prompted(&mut self, number: u64, answer: Result<Value, Error>) -> Result<(), Break> {
        if self.compaction.as_ref().is_some_and(|compaction| compaction.number == number) {
            return self.compacted(answer).await;
        }
        if self.turn.as_ref().is_none_or(|turn| turn.number != number) {
            return Ok(());
        }
        match answer {
            Ok(answer) => self.stopped(&answer).await,
            // The end of its output follows, with how it ended.
            Err(error) if session::is_gone(&error) => Ok(()),
            Err(error) => self.failed(&error).await,
        }
    }

    async fn stopped(&mut self, answer: &Value) -> Result<(), Break> {
        let mut events = self.close("the turn ended without its result");
        if let Some(usage) = answer.get("usage") {
            events.extend(self.translator.meter.turn(usage));
        }
        self.tell(events).await?;
        let reason = text(answer, "stopReason").unwrap_or("end_turn");
        if reason == "cancelled" {
            return self.interrupted().await;
        }
        // A turn that had already ended when the interrupt came is a turn that ended (ruling 17).
        let outcome = match reason {
            "end_turn" => SessionOutcome::Completed,
            "max_turn_requests" => {
                let limit = "the agent stopped at the limit of its requests";
                self.events.emit(notice("max_turn_requests", limit.into())).await?;
                SessionOutcome::MaxIterations
            }
            "max_tokens" => {
                if self.translator.meter.percent().is_some_and(|percent| percent >= FULL) {
                    self.events.emit(RawEvent::ContextExhausted {}).await?;
                }
                self.events
                    .emit(notice("max_tokens", "the agent stopped at the limit of its tokens".into()))
                    .await?;
                SessionOutcome::MaxIterations
            }
            "refusal" => {
                self.events.emit(notice("refusal", "the agent refused to go on".into())).await?;
                SessionOutcome::Completed
            }
            other => {
                let summary =
                    format!("the agent stopped for a reason of its own: {}", super::json::one_line(other));
                self.events.emit(notice("stopped", summary)).await?;
                SessionOutcome::Completed
            }
        };
        if let Some(turn) = &mut self.turn {
            turn.answered = Some(outcome);
        }
        self.end_turn_when_subagents_have().await
    }

    /// Completes a turn whose prompt is answered, when nobody works for it any more (ruling 18).
    pub(super) async fn end_turn_when_subagents_have(&mut self) -> Result<(), Break> {
        let answered = self.turn.as_ref().and_then(|turn| turn.answered);
        let Some(outcome) = answered.filter(|_| !self.translator.subagents_work()) else { return Ok(()) };
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let events = self.translator.end_turn("the turn ended without its result");
        self.tell(events).await?;
        self.terminals.forget_released();
        self.events.emit(RawEvent::TurnCompleted { turn_id: turn.id.clone(), output: None, outcome }).await?;
        if let Some((reply, _)) = turn.interrupt {
            self.refuse_waiting(&turn.id).await?;
            return Ok(reply.done().await?);
        }
        self.next_turn().await
    }

    /// The agent answered a prompt with an error: its conversation cannot go on by itself.
    async fn failed(&mut self, error: &Error) -> Result<(), Break> {
        let wanted = self.turn.as_ref().is_some_and(|turn| turn.interrupt.is_some());
        let mut events = self.close("the turn failed");
        events.extend(self.translator.end_subagents("the turn failed"));
        self.tell(events).await?;
        if wanted {
            // Some agents answer a cancelled prompt with an error.
            return self.interrupted().await;
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
        Err(Break::Over)
    }

    /// Ends what is open in the turn.
    fn close(&mut self, why: &str) -> Vec<RawEvent> {
        self.requests.cancel_all();
        self.translator.end_turn(why)
    }

    /// The turn is over because its owner wanted so.
    pub(super) async fn interrupted(&mut self) -> Result<(), Break> {
        let Some(turn) = self.turn.take() else { return Ok(()) };
        let mut events = self.close("the turn was interrupted");
        events.extend(self.translator.end_subagents("the turn was interrupted"));
        self.tell(events).await?;
        self.translator.listening = Listening::Aside;
        self.terminals.forget_released();
        let Some((reply, _)) = turn.interrupt else {
            // The agent broke it off itself. The control plane waits for an end of the turn.
            let turn_id = turn.id.clone();
            self.events.emit(notice("cancelled", "the agent broke its turn off by itself".into())).await?;
            self.events
                .emit(RawEvent::TurnCompleted { turn_id, output: None, outcome: SessionOutcome::Completed })
                .await?;
            return self.next_turn().await;
        };
        // They were to follow this turn; nothing follows an interrupt by itself (ruling 29).
        self.refuse_waiting(&turn.id).await?;
        Ok(reply.done().await?)
    }

    /// The agent is gone: what it left open is closed.
    pub(super) async fn abandon_turn(&mut self, why: &str) -> Result<(), Break> {
        let mut events = self.close(why);
        events.extend(self.translator.end_subagents(why));
        self.tell(events).await?;
        if let Some(turn) = self.turn.take()
            && let Some((reply, _)) = turn.interrupt
        {
            reply.done().await?;
        }
        Ok(())
    }
}
