//! The live stream of a session (S0 8.9).
//!
//! The stream is the journal: messages are made of its entries, in order, and their cursors are places in it. A client
//! that comes back with its last cursor goes on exactly there.
//!
//! | | embedded server | `aws`: a WebSocket API of API Gateway |
//! |---|---|---|
//! | a client connects | [`connect`]: `WS /ws/agents/sessions/{id}/stream?after=CURSOR` | [`authorize`], [`open`] |
//! | and follows a session | the same | [`subscribe`] |
//! | the journal grows | a task of the connection tails it | `relay` wakes [`push()`](push::push) by the queue of pushes |
//! | the connection ends | the task ends | [`closed`] |
//!
//! On the embedded server a client sees each message once. In `aws` it sees each at least once and in order, and drops
//! those whose cursor it has passed.

pub mod authorize;
pub mod closed;
pub mod connect;
pub mod connections;
mod frame;
pub mod open;
pub mod push;
pub mod subscribe;
pub mod wake;

use async_trait::async_trait;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{AgentSession, AgentSessionId, DomainEvent, UserId};

use crate::api::sessions::{BudgetView, MetricsView};
use crate::api::stream::{
    QueueChange, StatusView, StreamBody, StreamMessage, UsageView, cursor, cursor_within, parse_cursor,
};
use crate::edge::Problem;
use crate::records::view;

/// Tells that the journal of a session has grown. The journal itself is read from the store.
pub trait Wakes: Send + Sync + 'static {
    /// Watches a session from now on.
    fn watch(&self, id: AgentSessionId) -> Box<dyn Wake>;

    /// Watches what an owner is told, from now on. Where nobody follows that live, there is nothing to wait for.
    fn watch_owner(&self, _owner: &UserId) -> Box<dyn Wake> {
        Box::new(Never)
    }
}

/// Where there is nothing to wait for.
struct Never;

#[async_trait]
impl Wake for Never {
    async fn grown(&mut self) -> bool {
        false
    }
}

/// Watches one session.
#[async_trait]
pub trait Wake: Send {
    /// Waits until the journal has grown since the last call; false when the server ends.
    async fn grown(&mut self) -> bool;
}

/// The place in a session's journal that a client wants to go on after: the journal sequence, and how many messages of
/// the next entry it has seen. None: it wants all from the first entry on.
pub fn place(after: Option<&str>, session: &AgentSession) -> Result<(u64, usize), Problem> {
    let Some(text) = after else { return Ok((0, 0)) };
    parse_cursor(text)
        .filter(|(sequence, _)| *sequence <= session.journal_sequence())
        .ok_or_else(|| Problem::invalid("after", "is not a cursor of this stream"))
}

/// The messages of an entry, in order. The last one's cursor is the entry's own place.
pub fn messages(entry: &JournalEntry, session: &AgentSession) -> Vec<StreamMessage> {
    let mut bodies: Vec<StreamBody> = view::activity(entry).map(StreamBody::Activity).collect();
    bodies.extend(view::log_chunk(entry).map(StreamBody::Log));
    let mut told = None;
    for event in &entry.events {
        if let Some(status) = status_after(event, entry.status) {
            told = Some(status);
            bodies.push(StreamBody::Status(StatusView { status, event: event.name().to_owned() }));
        }
        bodies.extend(queue_change(event).map(StreamBody::Queue));
        if matches!(event, DomainEvent::MetricsUpdated { .. } | DomainEvent::BudgetChanged { .. }) {
            let usage = UsageView { metrics: MetricsView::of(session), budget: BudgetView::of(session) };
            bodies.push(StreamBody::Metrics(Box::new(usage)));
        }
    }
    // Several events of one change may lead back and forth: what counts is where the session stands after them.
    if let (Some(told), Some(status), Some(event)) = (told, entry.status, entry.events.last())
        && told != status
    {
        bodies.push(StreamBody::Status(StatusView { status, event: event.name().to_owned() }));
    }
    let last = bodies.len();
    let place = |at: usize| {
        if at + 1 == last { cursor(entry.sequence) } else { cursor_within(entry.sequence - 1, at + 1) }
    };
    bodies.into_iter().enumerate().map(|(at, body)| StreamMessage { cursor: place(at), body }).collect()
}

/// The status that an event leads to. Where that depends on what else is open, the entry says it.
const fn status_after(event: &DomainEvent, after: Option<S>) -> Option<S> {
    use DomainEvent as E;
    Some(match event {
        E::SessionCreated { .. } | E::Retried { .. } => S::Queued,
        E::SessionStarted { .. } | E::TurnStarted { .. } | E::Resumed {} => S::Running,
        E::TurnCompleted { .. } | E::OutputReady { .. } => S::Idle,
        E::InterruptRequested { .. } => S::Interrupting,
        E::Interrupted {} => S::Interrupted,
        E::PauseRequested { .. } => S::Pausing,
        E::Paused {} | E::ResumeAbandoned {} => S::Paused,
        E::ResumeRequested { .. } => S::Resuming,
        E::CancelRequested { .. } => S::Cancelling,
        E::Cancelled {} => S::Cancelled,
        E::Approved { .. } | E::Closed {} => S::Completed,
        E::Failed { .. } => S::Failed,
        E::ContextExhausted { .. } | E::VoluntaryHandoff { .. } => S::ContextExhausted,
        E::WaitingForInput { .. } => S::WaitingForInput,
        E::PlanPendingApproval { requires_approval: true, .. } => S::WaitingForApproval,
        E::InputReceived { .. }
        | E::PlanApproved { .. }
        | E::PlanRejected { .. }
        | E::RequestClosed { .. } => return after,
        _ => return None,
    })
}

/// What an event changes in the queue, and which message it is about.
fn queue_change(event: &DomainEvent) -> Option<QueueChange> {
    use DomainEvent as E;
    let message_id = match event {
        E::MessageEnqueued { message_id, .. }
        | E::MessageEdited { message_id, .. }
        | E::MessageMoved { message_id }
        | E::MessageDispatched { message_id, .. }
        | E::MessageDelivered { message_id, .. }
        | E::MessageUncertain { message_id }
        | E::MessageReturned { message_id, .. }
        | E::MessageCancelled { message_id, .. }
        | E::MessagePromoted { message_id } => Some(*message_id),
        E::MessagesHeld {} | E::MessagesReleased {} => None,
        _ => return None,
    };
    Some(QueueChange { event: event.name().to_owned(), message_id })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pilothouse_domain::conversation::Conversation;
    use pilothouse_domain::journal::Cause;
    use pilothouse_domain::queue::SessionMessageQueue;
    use pilothouse_domain::session::NewSession;
    use pilothouse_domain::value::SessionBudget;
    use pilothouse_domain::{Deadlines, IdSource, Occasion, Timestamp, UserId};

    use super::*;
    use crate::app::FreshIds;

    fn entry() -> (JournalEntry, AgentSession) {
        let mut ids = FreshIds;
        let id = AgentSessionId::new(ids.fresh());
        let mut cx = Occasion::new(Timestamp::from_millis(1), Deadlines::default(), &mut ids);
        let new = NewSession {
            id,
            owner_id: UserId::parse("ada").unwrap(),
            template_id: None,
            name: None,
            working_directory: "/w".to_owned().try_into().unwrap(),
            objective: "Do it".to_owned().try_into().unwrap(),
            model_id: "m".to_owned().try_into().unwrap(),
            budget: SessionBudget::new("1".parse().unwrap(), 80).unwrap(),
            auto_continue: None,
            settings: pilothouse_domain::session::SessionSettings::default(),
        };
        let (session, mut events) = AgentSession::create(new, &cx);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        events.extend(conversation.session.request_cancel(false, &mut cx).unwrap());
        let id = cx.event_id();
        let cause = Cause::Owner { function: "sessions-cancel".to_owned() };
        let entry = JournalEntry::record(&mut conversation.session, id, cx.now, cause, events, Vec::new());
        (entry, conversation.session)
    }

    #[test]
    fn every_cursor_goes_on_with_the_very_next_message() {
        let (entry, session) = entry();
        let all = messages(&entry, &session);
        assert!(all.len() > 3, "{all:?}");
        for (at, message) in all.iter().enumerate() {
            let (sequence, seen) = parse_cursor(&message.cursor).unwrap();
            let last = at + 1 == all.len();
            let expected = if last { (entry.sequence, 0) } else { (entry.sequence - 1, at + 1) };
            assert_eq!((sequence, seen), expected, "message {at} of {}", all.len());
        }
    }

    #[test]
    fn an_entry_that_tells_nothing_has_no_message() {
        let (mut entry, session) = entry();
        entry.events.clear();
        entry.activity.clear();
        assert!(messages(&entry, &session).is_empty());
    }

    #[test]
    fn what_is_no_cursor_is_none() {
        for text in ["", "5", "j", "j-1", "j5.", "j.5", "j5.x", "j99999999999999999999"] {
            assert_eq!(parse_cursor(text), None, "{text}");
        }
        assert_eq!(parse_cursor("j5"), Some((5, 0)));
        assert_eq!(parse_cursor("j5.2"), Some((5, 2)));
    }
}
