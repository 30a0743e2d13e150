//! The relay: sends messages for committed changes to the queues that process them (ARCHITECTURE.md, State).
//!
//! On the embedded server a task tails the journal; in `aws` the table's stream triggers the relay. Repeats are harmless: consumers
//! act on the current state, and queues that store messages recognize their ids.

use std::time::Duration;

use pilothouse_app::function::requirements::RELAY;
use pilothouse_app::function::{EventFunction, Subscription, Trigger};
use pilothouse_app::project_stream::ProjectSource;
use pilothouse_app::queues::DeadlineOf;
use pilothouse_broker::OutgoingMessage;
use pilothouse_domain::brake::BrakeScope;
use pilothouse_domain::decision::Decision;
use pilothouse_domain::journal::AnyAggregateEntry;
use pilothouse_domain::{AgentSessionId, Aggregate as _, Brake, ProjectAgent, SessionEvent, Timestamp};
use pilothouse_store::table::Item;
use pilothouse_store::{AggregateRef, Store, StoreError, layout};

use crate::events::{coherence_review, event_feed};
use crate::reactions;
use crate::realtime::push_queue::PushOf;

pub const FUNCTION: EventFunction =
    EventFunction::new("relay", &[Subscription::of_host(Trigger::Stream)], RELAY)
        .summary("Relay journal entries and near deadlines to their queues");

/// Deadlines within this time are sent as delayed messages. A sweep every minute finds the others.
pub const SOON: Duration = Duration::from_mins(1);

/// The messages and notifications that result from a written item.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RelayedMessages {
    pub reaction: Option<OutgoingMessage>,
    pub announcement: Option<OutgoingMessage>,
    pub review: Option<OutgoingMessage>,
    pub deadline: Option<OutgoingMessage>,
    /// What connections may follow.
    pub pushes: Vec<PushOf>,
}

/// The kinds of items that cause messages or pushes. The stream of the table delivers only these, because each invocation costs money.
pub const RELAYED_KINDS: [&str; 6] = [
    layout::JOURNAL,
    layout::AGGREGATE_JOURNAL,
    layout::SESSION,
    layout::DECISION,
    ProjectAgent::KIND,
    Brake::KIND,
];

/// Derives the messages and notifications from `item`, which was just written. Fails if the item cannot
/// be parsed; retrying does not help.
pub fn messages_for(item: &Item, now: Timestamp) -> Result<RelayedMessages, StoreError> {
    match item.kind.as_str() {
        kind if !RELAYED_KINDS.contains(&kind) => Ok(RelayedMessages::default()),
        layout::JOURNAL | layout::AGGREGATE_JOURNAL => {
            let mut pushes: Vec<_> = layout::session_of(&item.key).map(PushOf::from).into_iter().collect();
            pushes.extend(push_for_project(item)?);
            Ok(RelayedMessages { pushes, ..messages_for_entry(item)? })
        }
        layout::SESSION => Ok(RelayedMessages {
            deadline: layout::session_of(&item.key)
                .zip(item.due.as_ref().and_then(layout::due_at))
                .and_then(|(session, due)| deadline(session, due, now)),
            ..RelayedMessages::default()
        }),
        layout::DECISION => {
            let Decision { id, owner_id, .. } = Store::read_decision(item)?;
            let decision = AggregateRef { kind: layout::DECISION.to_owned(), id: id.to_string() };
            let due = item.due.as_ref().and_then(layout::due_at);
            Ok(RelayedMessages {
                deadline: due.and_then(|due| deadline_of_aggregate(&decision, due, now)),
                pushes: vec![PushOf::Decision { owner_id, decision_id: id }],
                ..RelayedMessages::default()
            })
        }
        // The journals of these do not name the project.
        ProjectAgent::KIND | Brake::KIND => Ok(RelayedMessages {
            pushes: push_for_project(item)?.into_iter().collect(),
            ..RelayedMessages::default()
        }),
        _ => Ok(RelayedMessages::default()),
    }
}

/// The push for the connections that follow the project of a written item.
///
/// A brake on all sessions, on a session or on an agent names no project. It is pushed with the first hold or release of a session.
fn push_for_project(item: &Item) -> Result<Option<PushOf>, StoreError> {
    let of = |project_id, source| Some(PushOf::Project { project_id, source: Some(source) });
    Ok(match item.kind.as_str() {
        layout::JOURNAL => {
            let entry = Store::read_entry(item)?;
            let is_hold = |event: &SessionEvent| {
                matches!(event, SessionEvent::Held { .. } | SessionEvent::HoldReleased { .. })
            };
            let brakes = entry.events.iter().any(is_hold);
            entry.project.map(|project| {
                // Everything is read after a hold, because the brake changed, too.
                let source = (!brakes).then_some(ProjectSource::Session(entry.session_id));
                PushOf::Project { project_id: project.project_id, source }
            })
        }
        layout::AGGREGATE_JOURNAL => match Store::read_aggregate_entry(item)? {
            AnyAggregateEntry::Project(entry) => {
                entry.aggregate_id.parse().ok().and_then(|id| of(id, ProjectSource::Project))
            }
            _ => None,
        },
        ProjectAgent::KIND => {
            let agent: ProjectAgent = Store::read_item(item)?;
            of(agent.project_id(), ProjectSource::Agent(agent.id()))
        }
        Brake::KIND => match Store::read_item::<Brake>(item)?.scope() {
            BrakeScope::Project { project_id } | BrakeScope::Workstream { project_id, .. } => {
                of(*project_id, ProjectSource::Brakes)
            }
            BrakeScope::All {} | BrakeScope::Session { .. } | BrakeScope::Agent { .. } => None,
        },
        _ => None,
    })
}

/// Returns the messages for the reactions to a journal entry, for its publication and for the review of an issue. Fails if the entry
/// cannot be parsed; retrying does not help.
pub fn messages_for_entry(item: &Item) -> Result<RelayedMessages, StoreError> {
    if item.kind == layout::AGGREGATE_JOURNAL {
        let entry = Store::read_aggregate_entry(item)?;
        return Ok(RelayedMessages {
            reaction: reactions::message_for_aggregate(&entry),
            announcement: event_feed::message_for_aggregate(&entry),
            review: coherence_review::message_for_aggregate(&entry),
            ..RelayedMessages::default()
        });
    }
    let entry = Store::read_entry(item)?;
    let (reaction, announcement) = (reactions::message(&entry), event_feed::message(&entry));
    Ok(RelayedMessages { reaction, announcement, ..RelayedMessages::default() })
}

/// `None` if a sweep finds the deadline first.
pub fn deadline(session: AgentSessionId, due: Timestamp, now: Timestamp) -> Option<OutgoingMessage> {
    reminder(session.to_string(), &DeadlineOf::Session { session_id: session }, due, now)
}

/// Returns the delayed message for a deadline of another aggregate.
pub fn deadline_of_aggregate(
    aggregate: &AggregateRef,
    due: Timestamp,
    now: Timestamp,
) -> Option<OutgoingMessage> {
    let AggregateRef { kind, id } = aggregate;
    reminder(format!("{kind}-{id}"), &DeadlineOf::Aggregate(aggregate.clone()), due, now)
}

fn reminder(whose: String, of: &DeadlineOf, due: Timestamp, now: Timestamp) -> Option<OutgoingMessage> {
    let wait = Duration::from_millis(u64::try_from(due.as_millis() - now.as_millis()).unwrap_or(0));
    if wait > SOON {
        return None;
    }
    // Queues count whole seconds. The delay is rounded up, because an early message would find no due deadline.
    let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    let id = format!("{whose}:{}", due.as_millis());
    let body = serde_json::to_string(of).ok()?;
    Some(OutgoingMessage { delay: wait, ..OutgoingMessage::new(whose, id, body) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_near_deadlines_are_queued_and_never_early() {
        let session: AgentSessionId = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let at = Timestamp::from_millis;
        let delay = |due| deadline(session, at(due), at(100_000)).map(|message| message.delay.as_secs());
        assert_eq!(delay(99_000), Some(0), "it is due already");
        assert_eq!(delay(100_001), Some(1));
        assert_eq!(delay(160_000), Some(60));
        assert_eq!(delay(160_001), None, "a sweep comes first");
        let body = deadline(session, at(0), at(0)).unwrap().body;
        assert_eq!(
            serde_json::from_str::<DeadlineOf>(&body).unwrap(),
            DeadlineOf::Session { session_id: session }
        );
    }
}
