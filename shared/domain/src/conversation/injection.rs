//! The delivery of injections to the agent (S2 `injectContext`; decision 89). An injection waits for a running turn, or for the message
//! that starts the next one. It never starts a turn itself, and requests no run.

use super::Conversation;
use crate::queue::SessionMessage;
use crate::session::AgentSessionStatus as S;
use crate::session::{InFlight, InFlightStep, Operation};
use crate::text::MessageContent;
use crate::value::{MessagePriority, MessageSource, MessageStatus};
use crate::{CommandRef, DomainContext, Events, MessageId, SessionEvent};

impl Conversation {
    /// Queues an injection in place of the pending one. A session that accepts no messages ignores it.
    pub fn inject(&mut self, id: MessageId, content: MessageContent, ctx: &DomainContext<'_>) -> Events {
        if !self.takes_injections() {
            return Vec::new();
        }
        let (replaced, events) = self.queue.inject(SessionMessage {
            message_id: id,
            content,
            images: Vec::new(),
            priority: MessagePriority::Immediate,
            status: MessageStatus::Pending,
            source: MessageSource::ContextInjection,
            expected_turn_id: None,
            sent: false,
            delivery_uncertain: false,
            created_at: ctx.now,
            delivered_at: None,
        });
        self.closed_messages.extend(replaced);
        events
    }

    /// Whether the session accepts injections.
    pub fn takes_injections(&self) -> bool {
        self.session.check(Operation::AcceptMessage).is_ok()
    }

    /// Sends the pending injection into the running turn, once for each turn. An agent without steering receives it with the next
    /// turn.
    pub(super) fn dispatch_injection(&mut self, ctx: &mut DomainContext<'_>) -> Events {
        let session = &self.session;
        let is_blocked = !session.is_live()
            || session.unreachable_since().is_some()
            || session.is_held()
            || session.budget().blocked()
            || session.is_between_turns()
            || !session.takes_messages_now()
            || self.queue.has_sent_injection();
        if session.status() != S::Running || is_blocked {
            return Vec::new();
        }
        let (Some(pending), Some(turn), Some(run)) =
            (self.queue.pending_injection(), session.turn(), session.run())
        else {
            return Vec::new();
        };
        if pending.expected_turn_id.as_ref() == Some(&turn.id) {
            return Vec::new();
        }
        let (run_id, turn) = (run.id, turn.id.clone());
        let Some(message_id) = self.queue.send_injection_into(&turn) else { return Vec::new() };
        let command = CommandRef { command_id: ctx.command_id(), run_id, attempt: 1 };
        self.session.sent(InFlight {
            message_id,
            run_id,
            command_id: command.command_id,
            step: InFlightStep::Sent,
            attempt: 1,
            sent_at: ctx.now,
            received: false,
        });
        vec![SessionEvent::MessageDispatched { message_id, command }]
    }

    /// Sends the pending injection with a message that starts a turn. The first character of a command must stay the first.
    pub(super) fn attach_injection(&mut self, message: MessageId) {
        let starts_turn = matches!(self.session.status(), S::Idle | S::Interrupted);
        let is_command = |it: &SessionMessage| it.content.as_str().trim_start().starts_with(['!', '/']);
        if starts_turn
            && !self.queue.has_sent_injection()
            && self.queue.get(message).is_some_and(|it| !is_command(it))
        {
            self.queue.send_injection_with(message);
        }
    }

    /// A turn that is over leaves the injection to the next one. An agent that cannot take it is not asked again.
    pub(super) fn injection_refused(&mut self, id: MessageId, code: &str) -> Events {
        if code == "turn-over" { self.return_injection(id, code) } else { self.drop_injection(id, code) }
    }

    pub(super) fn return_injection(&mut self, id: MessageId, reason: &str) -> Events {
        let (gone, events) = self.queue.return_injection(id, reason);
        self.closed_messages.extend(gone);
        events
    }

    fn drop_injection(&mut self, id: MessageId, reason: &str) -> Events {
        let Some((gone, events)) = self.queue.drop_injection(id, reason) else { return Vec::new() };
        self.closed_messages.push(gone);
        events
    }

    /// Returns a message or an injection that the agent did not receive, and the injection that was sent with it.
    pub(super) fn return_message(&mut self, id: MessageId, reason: &str) -> Events {
        if self.queue.is_injection(id) {
            return self.return_injection(id, reason);
        }
        let mut events = self.queue.requeue(id, reason);
        if let Some(attached) = self.queue.attached_to(id) {
            events.extend(self.return_injection(attached, reason));
        }
        events
    }

    /// Handles a message that the agent may have. An injection is dropped rather than repeated: the next one contains all knowledge.
    pub(super) fn mark_uncertain(&mut self, id: MessageId) -> Events {
        let lost = if self.queue.is_injection(id) { Some(id) } else { self.queue.attached_to(id) };
        let mut events = if lost == Some(id) { Vec::new() } else { self.queue.mark_uncertain(id) };
        if let Some(lost) = lost {
            events.extend(self.drop_injection(lost, Self::UNCERTAIN_INJECTION));
        }
        events
    }

    /// The reason of a cancelled injection whose delivery is unknown.
    pub const UNCERTAIN_INJECTION: &str = "delivery-uncertain";
}
