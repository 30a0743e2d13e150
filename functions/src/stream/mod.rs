//! The live stream of a session: `WS /ws/agents/sessions/{id}/stream?after=CURSOR` (S0 8.9).
//!
//! The stream is the journal: messages are made of its entries, in order, and their cursors are places in it. A client
//! that comes back with its last cursor goes on exactly there.

pub mod connect;

use async_trait::async_trait;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{AgentSession, AgentSessionId, DomainEvent, MessageId};

use crate::api::sessions::{BudgetView, MetricsView};
use crate::api::stream::{QueueChange, StatusView, StreamBody, StreamMessage, UsageView, cursor, cursor_within};
use crate::records::view;

/// Tells that the journal of a session has grown. The journal itself is read from the store.
pub trait Wakes: Send + Sync + 'static {
    /// Watches a session from now on.
    fn watch(&self, id: AgentSessionId) -> Box<dyn Wake>;
}

/// Watches one session.
#[async_trait]
pub trait Wake: Send {
    /// Waits until the journal has grown since the last call; false when the server ends.
    async fn grown(&mut self) -> bool;
}

/// The messages of an entry, in order. The last one's cursor is the entry's own place.
pub fn messages(entry: &JournalEntry, session: &AgentSession) -> Vec<StreamMessage> {
    let mut bodies: Vec<StreamBody> = view::activity(entry).map(StreamBody::Activity).collect();
    bodies.extend(view::log_chunk(entry).map(StreamBody::Log));
    for event in &entry.events {
        if let Some(status) = status_after(event) {
            bodies.push(StreamBody::Status(StatusView { status, event: event.name().to_owned() }));
        }
        if let Some(message_id) = queue_change(event) {
            bodies.push(StreamBody::Queue(QueueChange { event: event.name().to_owned(), message_id }));
        }
        if matches!(event, DomainEvent::MetricsUpdated { .. } | DomainEvent::BudgetChanged { .. }) {
            let usage = UsageView { metrics: MetricsView::of(session), budget: BudgetView::of(session) };
            bodies.push(StreamBody::Metrics(Box::new(usage)));
        }
    }
    let last = bodies.len();
    let place = |at: usize| {
        if at + 1 == last { cursor(entry.sequence) } else { cursor_within(entry.sequence - 1, at + 1) }
    };
    bodies.into_iter().enumerate().map(|(at, body)| StreamMessage { cursor: place(at), body }).collect()
}

/// The status that an event leads to.
const fn status_after(event: &DomainEvent) -> Option<S> {
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
        E::ContextExhausted {} | E::VoluntaryHandoff { .. } => S::ContextExhausted,
        E::WaitingForInput { .. } => S::WaitingForInput,
        E::PlanPendingApproval { requires_approval: true, .. } => S::WaitingForApproval,
        E::InputReceived { command: Some(_), .. }
        | E::PlanApproved { command: Some(_), .. }
        | E::PlanRejected { command: Some(_), .. } => S::Running,
        _ => return None,
    })
}

/// Whether an event changes the queue, and which message it is about.
const fn queue_change(event: &DomainEvent) -> Option<Option<MessageId>> {
    use DomainEvent as E;
    match event {
        E::MessageEnqueued { message_id, .. }
        | E::MessageEdited { message_id, .. }
        | E::MessageMoved { message_id }
        | E::MessageDispatched { message_id, .. }
        | E::MessageDelivered { message_id, .. }
        | E::MessageUncertain { message_id }
        | E::MessageReturned { message_id, .. }
        | E::MessageCancelled { message_id, .. }
        | E::MessagePromoted { message_id } => Some(Some(*message_id)),
        E::MessagesHeld {} | E::MessagesReleased {} => Some(None),
        _ => None,
    }
}
