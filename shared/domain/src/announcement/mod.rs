//! Events that are published beyond their session: to other contexts and to the owner (S0 8.6, 8.10; decision 37).
//!
//! Two tables are defined here: the events that are published to other contexts ([`ANNOUNCED_EVENTS`]), and those that notify the owner
//! ([`Publishable::notification_kind`]). Each owner has one sequence without gaps, in the order of publication. If an event is both published and notified,
//! both entries have the same number.

mod notification;
mod published;

pub use notification::{Notification, NotificationKind};
pub use published::{ANNOUNCED_EVENTS, Publishable, aggregate_publishes, publishes};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::journal::{AggregateJournalEntry, JournalEntry};
use crate::{AgentSessionId, EventId, SessionEvent, Timestamp, UserId};

/// Name of this system on an event bus that several systems share.
pub const SOURCE: &str = "pilothouse.agents";

/// A domain event as it is published to other contexts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// Position in the owner's event feed.
    pub sequence: u64,
    /// Identifies the event across redeliveries: the id of its journal entry and its index there.
    pub id: String,
    /// Name of the event in S0 8.6.
    #[serde(rename = "type")]
    pub event: String,
    /// Always `pilothouse.agents`.
    pub source: String,
    /// When the event happened.
    pub at: Timestamp,
    /// `sessionId` (or the id of another aggregate), `ownerId` and the fields of the event.
    pub detail: Value,
}

/// An event to publish, before it has its sequence number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// Identifies the event: the id of its journal entry and its index there.
    pub id: String,
    pub at: Timestamp,
    /// Name and details of the event for other contexts.
    pub announced: Option<(String, Value)>,
    pub notice: Option<(NotificationKind, String)>,
    pub session_id: Option<AgentSessionId>,
}

impl FeedEntry {
    /// `text` words the notifications.
    pub fn of(entry: &JournalEntry, text: impl Fn(&SessionEvent) -> String) -> Vec<Self> {
        let session = entry.session_id;
        let about = ("sessionId".to_owned(), session.to_string());
        Self::of_events(entry.id, entry.at, &entry.owner_id, &about, &entry.events, Some(session), text)
    }

    pub fn of_aggregate<E: Publishable>(
        entry: &AggregateJournalEntry<E>,
        text: impl Fn(&E) -> String,
    ) -> Vec<Self> {
        let about = (format!("{}Id", entry.kind), entry.aggregate_id.clone());
        Self::of_events(entry.id, entry.at, &entry.owner_id, &about, &entry.events, None, text)
    }

    fn of_events<E: Publishable>(
        id: EventId,
        at: Timestamp,
        owner: &UserId,
        about: &(String, String),
        events: &[E],
        session_id: Option<AgentSessionId>,
        text: impl Fn(&E) -> String,
    ) -> Vec<Self> {
        let published = events.iter().enumerate().filter(|(_, event)| event.is_published());
        let entry = |(place, event): (usize, &E)| Self {
            id: format!("{id}.{place}"),
            at,
            announced: event.is_announced().then(|| (event.name().to_owned(), detail(event, about, owner))),
            notice: event.notification_kind().map(|kind| (kind, text(event))),
            session_id,
        };
        published.map(entry).collect()
    }

    pub fn announcement(&self, sequence: u64) -> Option<Announcement> {
        let (event, detail) = self.announced.clone()?;
        let (id, source) = (self.id.clone(), SOURCE.to_owned());
        Some(Announcement { sequence, id, event, source, at: self.at, detail })
    }

    pub fn notification(&self, sequence: u64) -> Option<Notification> {
        let (kind, text) = self.notice.clone()?;
        Some(Notification { sequence, kind, text, session_id: self.session_id, at: self.at, read_at: None })
    }
}

/// The fields of an event without its commands, plus the ids of its aggregate and owner.
fn detail<E: Serialize>(event: &E, about: &(String, String), owner: &UserId) -> Value {
    let mut fields = match serde_json::to_value(event) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    fields.remove("type");
    fields.remove("command");
    fields.insert(about.0.clone(), about.1.clone().into());
    fields.insert("ownerId".to_owned(), owner.as_str().into());
    Value::Object(fields)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::journal::Cause;
    use crate::skill::MemoryPillCategory;
    use crate::{AgentSkillId, ChainEvent, MemoryPillId, RunId, SkillEvent, TemplateEvent};

    fn entry(events: Vec<SessionEvent>) -> JournalEntry {
        JournalEntry {
            id: "01890a5d-ac96-774b-bcce-b302099a8058".parse::<EventId>().unwrap(),
            session_id: "01890a5d-ac96-774b-bcce-b302099a8059".parse().unwrap(),
            owner_id: UserId::parse("ada").unwrap(),
            project: None,
            sequence: 7,
            at: Timestamp::from_millis(1),
            cause: Cause::Clock,
            events,
            status: None,
            activity: Vec::new(),
            ignored_reason: None,
            repairs: Vec::new(),
            decisions: Vec::new(),
            traceparent: None,
        }
    }

    #[test]
    fn entry_publishes_its_events_under_stable_names() {
        let run_id: RunId = "01890a5d-ac96-774b-bcce-b302099a805a".parse().unwrap();
        let lost = SessionEvent::EventsLost { from_sequence: 2, to_sequence: 4 };
        let command = Some(crate::CommandRef {
            command_id: "01890a5d-ac96-774b-bcce-b302099a805b".parse().unwrap(),
            run_id,
            attempt: 1,
        });
        let request_id = crate::ToolCallId::parse("p1").unwrap();
        let entry = entry(vec![
            SessionEvent::PlanCreated {},
            lost,
            SessionEvent::PlanApproved { request_id, command },
        ]);
        let entries = FeedEntry::of(&entry, |event| event.name().to_owned());
        assert!(publishes(&entry));
        assert_eq!(entries.len(), 2, "{entries:?}");
        let first = entries[0].announcement(9).unwrap();
        assert_eq!((first.sequence, first.event.as_str()), (9, "SessionEventsLostEvent"));
        assert_eq!(first.id, "01890a5d-ac96-774b-bcce-b302099a8058.1");
        assert_eq!(first.detail["fromSequence"], 2);
        assert_eq!(first.detail["ownerId"], "ada");
        assert_eq!(first.detail["sessionId"], entry.session_id.to_string());
        assert_eq!(entries[0].notification(9).unwrap().kind, NotificationKind::EventsLost);
        let second = entries[1].announcement(10).unwrap();
        assert_eq!(second.detail.get("command"), None, "commands are internal");
        assert_eq!(second.detail["requestId"], "p1");
        assert_eq!(entries[1].notification(10), None);
    }

    #[test]
    fn voluntary_handoff_notifies_as_a_forced_one() {
        let voluntary = SessionEvent::VoluntaryHandoff { reason: "noise".to_owned(), chain_id: None };
        for handoff in [voluntary, SessionEvent::ContextExhausted { chain_id: None }] {
            let entries = FeedEntry::of(&entry(vec![handoff]), |event| event.name().to_owned());
            assert_eq!(entries[0].notification(1).unwrap().kind, NotificationKind::ContextExhausted);
        }
    }

    #[test]
    fn table_names_are_those_of_events() {
        let known: Vec<_> =
            [SessionEvent::NAMES, ChainEvent::NAMES, SkillEvent::NAMES, TemplateEvent::NAMES].concat();
        for name in ANNOUNCED_EVENTS {
            assert!(known.contains(name), "{name}");
            assert_eq!(ANNOUNCED_EVENTS.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        assert!(Publishable::is_announced(&SessionEvent::Paused {}));
        assert!(!publishes(&entry(vec![SessionEvent::PlanCreated {}])));
    }

    #[test]
    fn journal_of_the_skill_alone_publishes_a_memory_pill() {
        let (skill_id, pill_id) = (AgentSkillId::new(Uuid::nil()), MemoryPillId::new(Uuid::nil()));
        let (session_id, category) = (AgentSessionId::new(Uuid::nil()), MemoryPillCategory::Tip);
        let of_skill = SkillEvent::MemoryPillRecorded { skill_id, pill_id, session_id, category };
        let of_session = SessionEvent::of_skill(&of_skill).unwrap();
        assert!(of_skill.is_published() && !of_session.is_published());
        assert_eq!(serde_json::to_value(&of_skill).unwrap(), serde_json::to_value(&of_session).unwrap());
    }
}
