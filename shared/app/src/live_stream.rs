//! Derives the live stream of a session from its journal. Each message comes from an entry, and its cursor is a position in the
//! journal, so that a client that reconnects with its last cursor misses nothing.

use pilothouse_api::sessions::{BudgetView, MetricsView};
use pilothouse_api::stream::{
    QueueChange, StatusView, StreamBody, StreamMessage, UsageView, cursor, cursor_within, parse_cursor,
};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::session::AgentSessionStatus as S;
use pilothouse_domain::{AgentSession, SessionEvent};

use crate::journal_views;
use crate::problem::Problem;

/// Parses the position after which a client resumes: the journal sequence, and the number of messages of the next entry that it
/// has seen. Without a cursor the stream starts at the first entry.
pub fn place(after: Option<&str>, session: &AgentSession) -> Result<(u64, usize), Problem> {
    let Some(text) = after else { return Ok((0, 0)) };
    parse_cursor(text)
        .filter(|(sequence, _)| *sequence <= session.journal_sequence())
        .ok_or_else(|| Problem::invalid("after", "is not a cursor of this stream"))
}

/// The messages of an entry, in order. The cursor of the last message is the position of the entry.
pub fn messages(entry: &JournalEntry, session: &AgentSession) -> Vec<StreamMessage> {
    let mut bodies: Vec<StreamBody> = journal_views::activity(entry).map(StreamBody::Activity).collect();
    bodies.extend(journal_views::log_chunk(entry).map(StreamBody::Log));
    let mut last_status = None;
    for event in &entry.events {
        if let Some(status) = status_after(event, entry.status) {
            last_status = Some(status);
            bodies.push(StreamBody::Status(StatusView { status, event: event.name().to_owned() }));
        }
        bodies.extend(queue_change(event).map(StreamBody::Queue));
        if matches!(event, SessionEvent::MetricsUpdated { .. } | SessionEvent::BudgetChanged { .. }) {
            let usage = UsageView { metrics: MetricsView::of(session), budget: BudgetView::of(session) };
            bodies.push(StreamBody::Metrics(Box::new(usage)));
        }
    }
    // The events of a change may lead through several statuses. The last message must show the status of the entry.
    if let (Some(last_status), Some(status), Some(event)) = (last_status, entry.status, entry.events.last())
        && last_status != status
    {
        bodies.push(StreamBody::Status(StatusView { status, event: event.name().to_owned() }));
    }
    let last = bodies.len();
    let place = |at: usize| {
        if at + 1 == last { cursor(entry.sequence) } else { cursor_within(entry.sequence - 1, at + 1) }
    };
    bodies.into_iter().enumerate().map(|(at, body)| StreamMessage { cursor: place(at), body }).collect()
}

/// The status after an event. Where the event alone does not determine it, the entry does.
const fn status_after(event: &SessionEvent, after: Option<S>) -> Option<S> {
    use SessionEvent as E;
    Some(match event {
        E::Created { .. } | E::Retried { .. } => S::Queued,
        E::Started { .. } | E::TurnStarted { .. } | E::Resumed {} => S::Running,
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

fn queue_change(event: &SessionEvent) -> Option<QueueChange> {
    use SessionEvent as E;
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
    use pilothouse_domain::session::{NewSession, SessionSettings};
    use pilothouse_domain::text::AdapterName;
    use pilothouse_domain::value::SessionBudget;
    use pilothouse_domain::{AgentSessionId, Deadlines, DomainContext, IdSource, Timestamp, UserId};

    use super::*;
    use crate::FreshIds;

    fn entry() -> (JournalEntry, AgentSession) {
        let mut ids = FreshIds;
        let id = AgentSessionId::new(ids.fresh());
        let mut ctx = DomainContext::new(Timestamp::from_millis(1), Deadlines::default(), &mut ids);
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
            settings: SessionSettings::new(AdapterName::script()),
        };
        let (session, mut events) = AgentSession::create(new, &ctx);
        let mut conversation = Conversation::new(session, SessionMessageQueue::default());
        events.extend(conversation.session.request_cancel(false, &mut ctx).unwrap());
        let id = ctx.event_id();
        let cause = Cause::Owner { function: "sessions-cancel".to_owned() };
        let entry = crate::texts::record(&mut conversation.session, id, ctx.now, cause, events, Vec::new());
        (entry, conversation.session)
    }

    #[test]
    fn every_cursor_resumes_at_the_next_message() {
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
    fn entry_without_events_or_activity_has_no_message() {
        let (mut entry, session) = entry();
        entry.events.clear();
        entry.activity.clear();
        assert!(messages(&entry, &session).is_empty());
    }

    #[test]
    fn invalid_cursor_is_refused() {
        for text in ["", "5", "j", "j-1", "j5.", "j.5", "j5.x", "j99999999999999999999"] {
            assert_eq!(parse_cursor(text), None, "{text}");
        }
        assert_eq!(parse_cursor("j5"), Some((5, 0)));
        assert_eq!(parse_cursor("j5.2"), Some((5, 2)));
    }
}
