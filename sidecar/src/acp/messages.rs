//! Messages: into the turn that runs where the agent has a way for that, else after it. Never by a second prompt, which
//! means something else to every agent.

use std::collections::{BTreeMap, VecDeque};

use agent_client_protocol::Error;
use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;
use serde_json::{Value, json};

use super::agents::Steering;
use super::driver::{Break, Driver};
use super::json::text;
use super::session;
use crate::adapter::{Message, MessageReply, Refusal};

/// Words that wait for their turn.
#[allow(clippy::large_enum_variant)] // a handful at a time
pub(super) enum Waiting {
    /// A message of the control plane.
    Message(Message, MessageReply),
    /// Words of the adapter's own: what an answer of the protocol has no room for.
    Own(String),
}

impl Waiting {
    const fn is_immediate(&self) -> bool {
        match self {
            Self::Message(message, _) => matches!(message.priority, MessagePriority::Immediate),
            Self::Own(_) => true,
        }
    }

    fn words(&self) -> &str {
        match self {
            Self::Message(message, _) => &message.content,
            Self::Own(words) => words,
        }
    }
}

/// The messages that wait, and those that are on their way into the turn.
#[derive(Default)]
pub(super) struct Messages {
    waiting: VecDeque<Waiting>,
    steering: BTreeMap<u64, Waiting>,
    steered: u64,
    /// Those up to this number were on their way into a turn that was interrupted, which this is.
    interrupted: Option<(u64, TurnId)>,
}

impl Messages {
    /// Adds words of the adapter's own.
    pub(super) fn add_own(&mut self, words: String) {
        self.waiting.push_back(Waiting::Own(words));
    }

    /// The turn that the message of this number was on its way into, when that was interrupted.
    fn was_interrupted(&self, number: u64) -> Option<&TurnId> {
        self.interrupted.as_ref().filter(|(last, _)| number <= *last).map(|(_, turn)| turn)
    }

    /// The next one: what is immediate goes first.
    fn next(&mut self) -> Option<Waiting> {
        let immediate = self.waiting.iter().position(Waiting::is_immediate);
        self.waiting.remove(immediate.unwrap_or(0))
    }

    /// The next one that is meant for the turn that runs.
    fn next_immediate(&mut self) -> Option<Waiting> {
        let immediate = self.waiting.iter().position(Waiting::is_immediate)?;
        self.waiting.remove(immediate)
    }
}

impl Driver {
    /// Takes a message.
    pub(super) async fn message(&mut self, message: Message, reply: MessageReply) -> Result<(), Break> {
        if let Some(expected) = &message.expected_turn
            && self.turn.as_ref().map(|turn| &turn.id) != Some(expected)
        {
            return Ok(reply.refuse(Refusal::turn_over(expected)).await?);
        }
        self.messages.waiting.push_back(Waiting::Message(message, reply));
        self.go_on_with_messages().await
    }

    /// Gives what is immediate to the turn that runs, where the agent has a way for it; without a turn, begins the next.
    pub(super) async fn go_on_with_messages(&mut self) -> Result<(), Break> {
        if self.turn.is_none() {
            return self.next_turn().await;
        }
        let ending = self.turn.as_ref().is_some_and(super::turns::Turn::is_ending);
        if self.advertised.steering != Steering::Extension || ending || self.paused {
            return Ok(());
        }
        while let Some(mut waiting) = self.messages.next_immediate() {
            if let Waiting::Message(_, reply) = &mut waiting {
                reply.injecting().await?;
            }
            self.messages.steered += 1;
            let number = self.messages.steered;
            let mut parameters = session::prompt(&self.conversation.id, &[waiting.words().to_owned()]);
            // When no turn runs any more, it is not to begin one that nobody knows of.
            parameters["_meta"] = json!({ "steering": { "idleBehavior": "promptRequired" } });
            self.messages.steering.insert(number, waiting);
            self.connection()?.steer(number, parameters);
        }
        Ok(())
    }

    /// What the agent did with a message.
    pub(super) async fn steered(&mut self, number: u64, answer: Result<Value, Error>) -> Result<(), Break> {
        let Some(waiting) = self.messages.steering.remove(&number) else { return Ok(()) };
        if answer.as_ref().is_err_and(session::is_gone) {
            return Ok(());
        }
        let taken = answer
            .as_ref()
            .is_ok_and(|answer| matches!(text(answer, "outcome"), Some("injected" | "startedNewTurn")));
        match waiting {
            Waiting::Message(_, reply) if taken => return Ok(reply.injected().await?),
            Waiting::Own(_) if taken => return Ok(()),
            // Nothing follows an interrupt by itself (ruling 29).
            Waiting::Message(_, reply) if self.messages.was_interrupted(number).is_some() => {
                if let Some(turn) = self.messages.was_interrupted(number) {
                    reply.refuse(Refusal::turn_over(&turn.clone())).await?;
                }
                return Ok(());
            }
            Waiting::Own(_) if self.messages.was_interrupted(number).is_some() => return Ok(()),
            // It did not take it: the message follows the turn, as it would with any other agent.
            waiting => self.messages.waiting.push_front(waiting),
        }
        if self.turn.is_none() {
            return self.next_turn().await;
        }
        Ok(())
    }

    /// Between turns: compacts when that was asked for, else begins a turn with the next message, if one waits. One that was
    /// meant for an earlier turn is refused.
    pub(super) async fn next_turn(&mut self) -> Result<(), Break> {
        if self.turn.is_some() || self.compaction.is_some() || self.paused {
            return Ok(());
        }
        if let Some((instructions, reply)) = self.compactions.pop_front() {
            return self.compact(instructions, reply).await;
        }
        while let Some(waiting) = self.messages.next() {
            match waiting {
                Waiting::Message(Message { expected_turn: Some(turn), .. }, reply) => {
                    reply.refuse(Refusal::turn_over(&turn)).await?;
                }
                Waiting::Message(message, reply) => {
                    let words = message.content.clone();
                    return self.begin_turn(vec![words], Some((message, reply))).await;
                }
                Waiting::Own(words) => return self.begin_turn(vec![words], None).await,
            }
        }
        Ok(())
    }

    /// Refuses what waited to follow a turn that was interrupted.
    pub(super) async fn refuse_waiting(&mut self, turn: &TurnId) -> Result<(), Break> {
        self.messages.interrupted = Some((self.messages.steered, turn.clone()));
        for waiting in std::mem::take(&mut self.messages.waiting) {
            if let Waiting::Message(_, reply) = waiting {
                reply.refuse(Refusal::turn_over(turn)).await?;
            }
        }
        Ok(())
    }
}
