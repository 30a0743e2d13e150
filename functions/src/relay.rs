//! The relay: hands what was committed to who must act upon it (architecture: State).
//!
//! On the embedded server a task tails the journal; in `aws` the stream of the table triggers it. A repeat does no harm:
//! queues know messages by their ids, and who takes them looks at the state as it is.

use std::time::Duration;

use pilothouse_broker::Outgoing;
use pilothouse_domain::{AgentSessionId, Timestamp};
use pilothouse_store::table::Item;
use pilothouse_store::{OwnedRef, Store, StoreError, layout};

use crate::queues::DeadlineOf;
use crate::{reactions, telling};

/// What is due within this time rides on a delayed message; a sweep every minute finds the rest.
pub const SOON: Duration = Duration::from_mins(1);

/// What follows from an item as it was written.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Follows {
    /// A message for the reactions.
    pub reaction: Option<Outgoing>,
    /// A message for who tells it beyond its session.
    pub announcement: Option<Outgoing>,
    /// A message that comes when something is due.
    pub deadline: Option<Outgoing>,
    /// The session whose journal has grown.
    pub grown: Option<AgentSessionId>,
}

/// What follows from `item`, which was just written.
///
/// # Errors
/// A journal entry cannot be read. Trying again does not help.
pub fn follows(item: &Item, now: Timestamp) -> Result<Follows, StoreError> {
    match item.kind.as_str() {
        layout::JOURNAL | layout::OWNED_JOURNAL => {
            let (reaction, announcement) = hand_on(item)?;
            Ok(Follows { reaction, announcement, grown: layout::session_of(&item.key), ..Follows::default() })
        }
        layout::SESSION => Ok(Follows {
            deadline: layout::session_of(&item.key)
                .zip(item.due.as_ref().and_then(layout::due_at))
                .and_then(|(session, due)| deadline(session, due, now)),
            ..Follows::default()
        }),
        _ => Ok(Follows::default()),
    }
}

/// The messages for the reactions to `item`, an entry of a journal, and for who tells it.
///
/// # Errors
/// It cannot be read. Trying again does not help.
pub fn hand_on(item: &Item) -> Result<(Option<Outgoing>, Option<Outgoing>), StoreError> {
    if item.kind == layout::OWNED_JOURNAL {
        let entry = Store::read_owned_entry(item)?;
        return Ok((reactions::message_of_owned(&entry), telling::message_of_owned(&entry)));
    }
    let entry = Store::read_entry(item)?;
    Ok((reactions::message(&entry), telling::message(&entry)))
}

/// The message that comes when something of a session is due; none when a sweep comes first.
pub fn deadline(session: AgentSessionId, due: Timestamp, now: Timestamp) -> Option<Outgoing> {
    reminder(session.to_string(), &DeadlineOf::Session { session_id: session }, due, now)
}

/// The same of an aggregate that is no session.
pub fn deadline_of_owned(aggregate: &OwnedRef, due: Timestamp, now: Timestamp) -> Option<Outgoing> {
    let OwnedRef { kind, id } = aggregate;
    reminder(format!("{kind}-{id}"), &DeadlineOf::Owned(aggregate.clone()), due, now)
}

fn reminder(whose: String, of: &DeadlineOf, due: Timestamp, now: Timestamp) -> Option<Outgoing> {
    let wait = Duration::from_millis(u64::try_from(due.as_millis() - now.as_millis()).unwrap_or(0));
    if wait > SOON {
        return None;
    }
    // Queues count whole seconds, and a message that came early would find nothing to do.
    let wait = Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    let id = format!("{whose}:{}", due.as_millis());
    let body = serde_json::to_string(of).ok()?;
    Some(Outgoing { delay: wait, ..Outgoing::new(whose, id, body) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_due_soon_rides_on_a_message_and_never_comes_early() {
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
