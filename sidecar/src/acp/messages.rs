//! Sends messages into the current turn if the agent supports it, or else after it. Never sends a second prompt during
//! a turn, because agents treat it differently.

use agent_client_protocol::Error;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessageImage;
use serde_json::{Value, json};

use super::agents::Steering;
use super::driver::Driver;
use super::prompt::Prompt;
use super::session;
use super::waiting::Waiting;
use super::work::Turn;
use crate::adapter::{Message, MessageReply, Refusal};
use crate::kit::images::{left_out, text_without_images};
use crate::kit::json::text;
use crate::kit::messages::refuse_late;
use crate::kit::turns::DriverExit;

impl Driver {
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), DriverExit> {
        let turn = self.turn.as_ref().map(|turn| &turn.id);
        let Some((message, reply)) = refuse_late((message, reply), turn).await? else { return Ok(()) };
        self.messages.waiting.push(Waiting::Message(message, reply));
        self.deliver_messages().await
    }

    /// Sends immediate messages into the current turn if the agent supports it. Without a turn, begins the next one.
    pub(super) async fn deliver_messages(&mut self) -> Result<(), DriverExit> {
        if self.turn.is_none() {
            return self.next_turn().await;
        }
        let ending = self.turn.as_ref().is_some_and(Turn::is_ending);
        if self.advertised.steering != Steering::Extension || ending || self.paused {
            return Ok(());
        }
        while let Some(mut waiting) = self.messages.waiting.next_immediate() {
            let prompt = self.prompt_of(waiting.words().to_owned(), waiting.images()).await?;
            if let Waiting::Message(_, reply) = &mut waiting {
                reply.injecting().await?;
            }
            self.record_prompt(waiting.words()).await?;
            self.messages.steered += 1;
            let number = self.messages.steered;
            let mut parameters = session::prompt(&self.conversation.id, &prompt);
            // Without a current turn, the agent must not begin one that the control plane does not know.
            parameters["_meta"] = json!({ "steering": { "idleBehavior": "promptRequired" } });
            self.messages.steering.insert(number, waiting);
            self.connection()?.steer(number, parameters);
        }
        Ok(())
    }

    pub(super) async fn steered(
        &mut self,
        number: u64,
        response: Result<Value, Error>,
    ) -> Result<(), DriverExit> {
        if response.as_ref().is_err_and(session::is_gone) {
            // `Closed` follows.
            return Ok(());
        }
        let Some(waiting) = self.messages.steering.remove(&number) else { return Ok(()) };
        let taken = response
            .as_ref()
            .is_ok_and(|response| matches!(text(response, "outcome"), Some("injected" | "startedNewTurn")));
        match waiting {
            Waiting::Message(_, reply) if taken => return Ok(reply.injected().await?),
            Waiting::Own(_) if taken => return Ok(()),
            // Messages do not follow an interrupted turn (decision 29).
            Waiting::Message(_, reply) if self.messages.was_interrupted(number).is_some() => {
                if let Some(turn) = self.messages.was_interrupted(number) {
                    reply.refuse(Refusal::turn_over(&turn.clone())).await?;
                }
                return Ok(());
            }
            Waiting::Own(_) if self.messages.was_interrupted(number).is_some() => return Ok(()),
            // The agent rejected the message. It follows the turn, as with agents that do not support steering.
            waiting => self.messages.waiting.put_back(waiting),
        }
        if self.turn.is_none() {
            return self.next_turn().await;
        }
        Ok(())
    }

    /// Between turns: runs a requested compaction, or begins a turn with the next message. Refuses messages that were
    /// meant for an earlier turn.
    pub(super) async fn next_turn(&mut self) -> Result<(), DriverExit> {
        if self.turn.is_some() || self.compaction.is_some() || self.paused {
            return Ok(());
        }
        if let Some((instructions, reply)) = self.compactions.next() {
            return self.compact(instructions, reply).await;
        }
        while let Some(waiting) = self.messages.waiting.next() {
            match waiting {
                Waiting::Message(message, reply) => {
                    if let Some((message, reply)) = refuse_late((message, reply), None).await? {
                        return self.begin_turn(Waiting::Message(message, reply)).await;
                    }
                }
                own @ Waiting::Own(_) => return self.begin_turn(own).await,
            }
        }
        Ok(())
    }

    /// Refuses the messages that were being sent into the turn when the agent ended. The agent may have read them, so
    /// nothing resends them without their owner (decision 30).
    pub(super) async fn refuse_steering(&mut self) -> Result<(), DriverExit> {
        for (number, waiting) in std::mem::take(&mut self.messages.steering) {
            if let Waiting::Message(_, reply) = waiting {
                let turn = self.messages.was_interrupted(number);
                reply.refuse(turn.map_or_else(Refusal::delivery_uncertain, Refusal::turn_over)).await?;
            }
        }
        Ok(())
    }

    /// Refuses the messages that waited for the end of an interrupted turn.
    pub(super) async fn refuse_waiting(&mut self, turn: &TurnId) -> Result<(), DriverExit> {
        self.messages.interrupted = Some((self.messages.steered, turn.clone()));
        for waiting in self.messages.waiting.take_all() {
            if let Waiting::Message(_, reply) = waiting {
                reply.refuse(Refusal::turn_over(turn)).await?;
            }
        }
        Ok(())
    }

    /// The prompt of a message. The agent must be running, because it announces whether it accepts images.
    pub(super) async fn prompt_of(
        &mut self,
        text: String,
        images: &[MessageImage],
    ) -> Result<Prompt, DriverExit> {
        if images.is_empty() {
            return Ok(Prompt::of_text(text));
        }
        if !self.advertised.takes_images {
            self.events.emit(left_out(images.len(), "the agent does not accept images")).await?;
            return Ok(Prompt::of_text(text_without_images(&text, images.len())));
        }
        let images = self.images.load(images, &self.events).await?;
        Ok(Prompt { texts: vec![text], images })
    }
}
