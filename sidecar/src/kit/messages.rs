//! Messages that wait for their turn (decisions 29 and 30).

use std::collections::VecDeque;

use pilothouse_domain::TurnId;
use pilothouse_domain::value::MessagePriority;

use crate::adapter::{Message, MessageReply, Refusal};
use crate::spool::SpoolError;

pub(crate) type HeldMessage = (Message, MessageReply);

pub(crate) trait Held {
    /// Whether it enters the running turn, and goes before others between turns.
    fn is_immediate(&self) -> bool;
}

impl Held for HeldMessage {
    fn is_immediate(&self) -> bool {
        self.0.priority == MessagePriority::Immediate
    }
}

/// In order of arrival.
#[derive(Debug)]
pub(crate) struct MessageQueue<M = HeldMessage>(VecDeque<M>);

impl<M> Default for MessageQueue<M> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<M: Held> MessageQueue<M> {
    pub(crate) fn push(&mut self, message: M) {
        self.0.push_back(message);
    }

    pub(crate) fn put_back(&mut self, message: M) {
        self.0.push_front(message);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has_immediate(&self) -> bool {
        self.0.iter().any(Held::is_immediate)
    }

    /// The next message for the current turn.
    pub(crate) fn next_immediate(&mut self) -> Option<M> {
        let immediate = self.0.iter().position(Held::is_immediate)?;
        self.0.remove(immediate)
    }

    pub(crate) fn next(&mut self) -> Option<M> {
        self.next_immediate().or_else(|| self.first())
    }

    pub(crate) fn first(&mut self) -> Option<M> {
        self.0.pop_front()
    }

    pub(crate) fn take_all(&mut self) -> VecDeque<M> {
        std::mem::take(&mut self.0)
    }
}

impl MessageQueue {
    /// The first message that was meant for another turn than `turn`.
    pub(crate) fn next_late(&mut self, turn: Option<&TurnId>) -> Option<HeldMessage> {
        let late = self.0.iter().position(|(message, _)| message.missed_turn(turn).is_some())?;
        self.0.remove(late)
    }
}

/// Returns the message, or refuses it if it was meant for another turn than the current one.
pub(crate) async fn refuse_late(
    (message, reply): HeldMessage,
    turn: Option<&TurnId>,
) -> Result<Option<HeldMessage>, SpoolError> {
    if let Some(missed) = message.missed_turn(turn) {
        reply.refuse(Refusal::turn_over(missed)).await?;
        return Ok(None);
    }
    Ok(Some((message, reply)))
}

/// Refuses a message whose turn was interrupted before the agent had it, or which its owner must send again (decision 29).
pub(crate) async fn refuse_interrupted(message: Message, reply: MessageReply) -> Result<(), SpoolError> {
    let refusal = match &message.expected_turn {
        Some(turn) => Refusal::turn_over(turn),
        None => Refusal {
            code: "interrupted",
            message: "the turn was interrupted before the agent had the message".into(),
        },
    };
    reply.refuse(refusal).await
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Held for (u8, bool) {
        fn is_immediate(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn immediate_messages_go_first_and_the_order_is_kept() {
        let mut queue = MessageQueue::default();
        for message in [(1, false), (2, true), (3, false), (4, true)] {
            queue.push(message);
        }
        assert_eq!((queue.next(), queue.next_immediate()), (Some((2, true)), Some((4, true))));
        assert!(!queue.has_immediate() && queue.next_immediate().is_none());
        assert_eq!((queue.next(), queue.first(), queue.next()), (Some((1, false)), Some((3, false)), None));
    }
}
