//! Texts for people: lines of the activity stream and notifications. The domain decides; this module words it.

mod activity;
mod notifications;

pub use activity::activity_of;
pub use notifications::NotificationText;

use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::value::ActivityItem;
use pilothouse_domain::{AgentSession, EventId, Events, Timestamp};

/// Creates the session's next journal entry, with `activity` and the lines of the events.
pub fn record(
    session: &mut AgentSession,
    id: EventId,
    at: Timestamp,
    cause: Cause,
    events: Events,
    mut activity: Vec<ActivityItem>,
) -> JournalEntry {
    activity.extend(events.iter().filter_map(|event| activity_of(event, at)));
    JournalEntry::record(session, id, at, cause, events, activity)
}
