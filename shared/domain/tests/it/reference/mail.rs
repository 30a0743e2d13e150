//! Messages (S0 8.4 `SessionMessageQueue`, decisions 28 to 30): their order, holds, when each is sent, and that each ends once.

use std::collections::{BTreeMap, BTreeSet};

use pilothouse_domain::session::{AgentFact, AgentSessionStatus as S};
use pilothouse_domain::value::{MessagePriority as P, MessageSource};
use pilothouse_domain::{CommandId, MessageId, SessionEvent as E, TurnId};

use super::Walk;
use crate::scenario::Scenario;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Letter {
    id: MessageId,
    immediate: bool,
    sent: bool,
    uncertain: bool,
}

/// The queue according to the specification.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    letters: Vec<Letter>,
    pub(crate) held: bool,
    /// Sent messages: their command, and whether the agent has the message but has not started its turn.
    flying: BTreeMap<MessageId, (CommandId, bool)>,
    /// The turn that each open message is meant for.
    expected: BTreeMap<MessageId, Option<TurnId>>,
    /// Delivered and cancelled messages, which must not reappear.
    over: BTreeSet<MessageId>,
}

impl Mail {
    fn letter(&mut self, id: MessageId) -> &mut Letter {
        self.letters.iter_mut().find(|l| l.id == id).unwrap_or_else(|| panic!("{id} is not in the queue"))
    }

    /// Adds a message at the end of its priority.
    fn put(&mut self, letter: Letter) {
        let urgent = self.letters.iter().filter(|l| l.immediate).count();
        let at = if letter.immediate { urgent } else { self.letters.len() };
        self.letters.insert(at, letter);
    }

    fn end(&mut self, id: MessageId) {
        assert!(self.over.insert(id), "{id} was over already");
        let before = self.letters.len();
        self.letters.retain(|l| l.id != id);
        assert_eq!(self.letters.len() + 1, before, "{id} ended and was not in the queue");
    }

    fn can_go(letter: &Letter) -> bool {
        !letter.sent && !letter.uncertain
    }

    /// The message that decision 29 sends now.
    fn next(&self, walk: &Walk, can_send: bool) -> Option<MessageId> {
        if self.held || !can_send || self.flying.len() >= 16 {
            return None;
        }
        let first = self.letters.iter().find(|l| Self::can_go(l))?;
        match walk.status {
            S::Running if first.immediate => Some(first.id),
            S::Idle | S::Interrupted if self.flying.is_empty() => Some(first.id),
            _ => None,
        }
    }

    /// Whether a message was sent whose turn has not started (decision 29).
    pub(crate) fn turn_starts(&self) -> bool {
        !self.flying.is_empty()
    }

    pub(crate) fn sent_for(&mut self, id: MessageId, expected: Option<TurnId>) {
        self.expected.entry(id).or_insert(expected);
    }

    pub(crate) fn moved(&mut self, id: MessageId, position: usize) {
        let at = self.letters.iter().position(|l| l.id == id).expect("a moved message exists");
        let letter = self.letters.remove(at);
        let urgent = self.letters.iter().filter(|l| l.immediate).count();
        let (start, end) = if letter.immediate { (0, urgent) } else { (urgent, self.letters.len()) };
        self.letters.insert((start + position).min(end), letter);
    }

    pub(crate) fn released(&mut self, id: MessageId) {
        let letter = self.letter(id);
        letter.sent = false;
        letter.uncertain = false;
        self.held = false;
    }

    /// Applies a fact about messages. `joins`: a message that the agent receives now joins the running turn.
    pub(crate) fn heard(&mut self, fact: &AgentFact, joins: bool) {
        let id = match fact {
            AgentFact::MessageInjected(id) | AgentFact::TurnStarted { message: Some(id), .. } => id,
            AgentFact::CommandRefused { command, .. } => {
                // It was refused after it was received: no turn follows.
                return self.flying.retain(|_, (sent_as, taken)| sent_as != command || !*taken);
            }
            _ => return,
        };
        if joins {
            self.flying.remove(id);
        } else if let Some((_, taken)) = self.flying.get_mut(id) {
            *taken = true;
        }
    }

    pub(crate) fn happened(&mut self, event: &E, walk: &Walk, can_send: bool) {
        match event {
            E::MessageEnqueued { message_id: id, priority, source, .. } => {
                assert!(!self.over.contains(id), "{id} is over and comes again");
                self.put(Letter {
                    id: *id,
                    immediate: *priority == P::Immediate,
                    sent: false,
                    uncertain: false,
                });
                self.held &= *source != MessageSource::User;
            }
            E::MessagePromoted { message_id: id } => {
                let mut letter = self.letter(*id).clone();
                assert!(!letter.immediate && !letter.sent, "promoted: {letter:?}");
                self.letters.retain(|l| l.id != *id);
                letter.immediate = true;
                self.put(letter);
                self.held = false;
            }
            E::MessageDispatched { message_id: id, command } if command.attempt == 1 => {
                assert_eq!(Some(*id), self.next(walk, can_send), "sent out of turn while {}", walk.status);
                self.letter(*id).sent = true;
                self.flying.insert(*id, (command.command_id, false));
            }
            E::MessageDispatched { message_id: id, command } => {
                assert_eq!(
                    self.flying.get(id),
                    Some(&(command.command_id, false)),
                    "sent again, but not in flight"
                );
            }
            E::MessageDelivered { message_id: id, .. } => self.end(*id),
            E::MessageCancelled { message_id: id, .. } => {
                self.end(*id);
                self.flying.remove(id);
            }
            E::MessageReturned { message_id: id, .. } => {
                self.letter(*id).sent = false;
                self.flying.remove(id);
            }
            E::MessageUncertain { message_id: id } => {
                let letter = self.letter(*id);
                letter.sent = false;
                letter.uncertain = true;
                self.flying.remove(id);
            }
            E::MessagesHeld {} => self.held = true,
            // An ended session holds no messages.
            E::MessagesReleased {} | E::Cancelled {} | E::Closed {} | E::Approved { .. } => self.held = false,
            // A turn that starts includes its message; a turn that ends leaves none behind.
            E::TurnStarted { message_id, .. } => {
                self.flying.retain(|id, (_, taken)| Some(*id) != *message_id && !*taken);
            }
            E::TurnCompleted { .. } | E::OutputReady { .. }
                if matches!(walk.status, S::Running) || walk.status.is_waiting() =>
            {
                self.flying.retain(|_, (_, taken)| !*taken);
            }
            E::RunEnded { .. } => self.flying.retain(|_, (_, taken)| !*taken),
            _ => {}
        }
    }

    pub(crate) fn compare(&self, scenario: &Scenario, walk: &Walk, can_send: bool) {
        let queue = &scenario.conv.queue;
        let open = queue.messages().iter().map(|m| Letter {
            id: m.message_id,
            immediate: m.priority == P::Immediate,
            sent: m.sent,
            uncertain: m.delivery_uncertain,
        });
        assert_eq!(open.collect::<Vec<_>>(), self.letters, "the queue");
        assert_eq!(queue.is_held(), self.held, "held");
        // Decision 29: a message that can be sent is sent in the same commit.
        assert_eq!(self.next(walk, can_send), None, "a message could go out and does not");
        assert!(scenario.conv.closed_messages.iter().all(|m| self.over.contains(&m.message_id)));
        assert_eq!(scenario.conv.closed_messages.len(), self.over.len(), "a message is over once");
    }

    /// The error code if a new message is refused; `None` if it is accepted or known.
    pub(crate) fn refuses_new(
        &self,
        id: MessageId,
        expected: Option<&TurnId>,
        walk: &Walk,
    ) -> Option<&'static str> {
        let ended = matches!(walk.status, S::Completed | S::Cancelled | S::ContextExhausted | S::Failed);
        if self.letters.iter().any(|l| l.id == id) {
            let same = self.expected.get(&id).and_then(Option::as_ref) == expected;
            (!same).then_some("idempotency-mismatch")
        } else if ended {
            Some("invalid-transition")
        } else {
            (expected.is_some() && expected != walk.turn.as_ref()).then_some("turn-over")
        }
    }

    /// The error code if a change of a pending message is refused.
    pub(crate) fn refuses_change(
        &self,
        id: MessageId,
        promotes: bool,
        releases: bool,
    ) -> Option<&'static str> {
        let Some(letter) = self.letters.iter().find(|l| l.id == id) else { return Some("not-found") };
        if letter.sent && !(releases && letter.uncertain) {
            Some("already-sent")
        } else {
            (promotes && letter.immediate).then_some("already-immediate")
        }
    }
}
