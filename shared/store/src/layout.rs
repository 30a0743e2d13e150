//! Where everything stands in the table: the one place that makes keys.
//!
//! | what | partition | sort | kind |
//! |---|---|---|---|
//! | session | `S#{session}` | `SESSION` | `session` |
//! | message queue | `S#{session}` | `QUEUE` | `queue` |
//! | journal entry | `S#{session}` | `J#{sequence}` | `journal` |
//! | what a message was sent as | `S#{session}` | `M#{message}` | `sent` |
//! | message that left the queue | `S#{session}` | `D#{message}` | `message` |
//! | subagent | `S#{session}` | `SUB#{subagent}` | `subagent` |
//! | parked envelope | `S#{session}` | `PARK#{run}#{sequence}` | `parked` |
//! | last heartbeat | `S#{session}` | `BEAT` | `beat` |
//! | claim of a run | `S#{session}` | `RUN#{run}` | `claim` |
//! | what a connection watches | `S#{session}` | `CONN#{connection}` | `watcher` |
//! | task of an agent | `S#{session}` | `TASK#{task}` | `task` |
//! | learning of an agent | `S#{session}` | `LEARN#{learning}` | `learning` |
//! | how often an agent called | `S#{session}` | `CALLS` | `calls` |
//! | live connection | `C#{connection}` | `CONN` | `connection` |
//! | what a journal entry was told as | `F#{owner}` | `TOLD#{entry}` | `told` |
//! | how much an owner was told | `F#{owner}` | `HEAD` | `feed` |
//! | announcement | `F#{owner}` | `E#{sequence}` | `announcement` |
//! | notification | `F#{owner}` | `N#{sequence}` | `notification` |
//! | webhook | `H#{owner}` | `{webhook}` | `webhook` |
//! | delivery | `D#{webhook}` | `{sequence}` | `delivery` |
//! | pool | `O#{owner}` | `POOL` | `pool` |
//! | worker | `W#{owner}` | `{worker}` | `worker` |
//! | where a run is | `R#{run}` | `PLACE` | `placement` |
//! | where a session's folders are | `S#{session}` | `HOME` | `home` |
//! | chain, skill, template | `A#{kind}#{id}` | `ROOT` | its kind |
//! | entry of its journal | `A#{kind}#{id}` | `J#{sequence}` | `owned-journal` |
//! | part that left it | `A#{kind}#{id}` | `R#{group}#{part}` | `record` |
//! | a name that is taken | `O#{owner}` | `NAME#{kind}#{hash of the name}` | `name` |
//! | idempotency record | `I#{owner}#{hash of the key}` | `ANSWER` | `answer` |
//! | whose a run is | `R#{run}` | `WHOSE` | `whose` |
//! | place of the relay | `RELAY` | `PLACE` | `place` |
//! | place of the sweep of queues | `SWEEP` | `PLACE` | `place` |
//!
//! The Listing index holds an owner's sessions (`O#{owner}`, by id, which is by creation time), an owner's other
//! aggregates (`K#{kind}#{owner}`), what agents learned (`L#{owner}`, by id), what an owner was notified of and has not read
//! (`U#{owner}`, by sequence), and the views of a journal (`V#{session}#…`). The Due index holds sessions by when something is due, over a few partitions so that no
//! single one is hot. Of workers, the Listing index holds those that serve everybody (`W*`); of runs, both indexes hold
//! those that nobody has claimed: Listing by owner (`WAITING#{owner}`), Due in one partition (`WAITING`).

use std::time::Duration;

use pilothouse_domain::{
    AgentLearningId, AgentSessionId, AgentTaskId, EventId, MessageId, RunId, SubAgentId, Timestamp,
    ToolCallId, UserId, WebhookId,
};

use crate::connections::ConnectionId;
use crate::owned::OwnedRef;
use crate::table::{Key, SortRange};
use crate::workers::WorkerKey;

/// Partitions of the Due index.
pub const DUE_SHARDS: u8 = 4;

/// The kind of a session's own item.
pub const SESSION: &str = "session";
/// The kind of a journal entry.
pub const JOURNAL: &str = "journal";

/// The kind of an entry in the journal of an aggregate that is no session.
pub const OWNED_JOURNAL: &str = "owned-journal";

/// Whether items of a kind are the outbox: what the relay hands on.
pub fn is_outbox(kind: &str) -> bool {
    matches!(kind, JOURNAL | OWNED_JOURNAL)
}

/// The session that an item belongs to.
pub fn session_of(key: &Key) -> Option<AgentSessionId> {
    key.partition.strip_prefix("S#")?.parse().ok()
}

/// Everything of a session, in the table.
pub fn session_partition(id: AgentSessionId) -> String {
    format!("S#{id}")
}

pub(crate) fn session(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "SESSION")
}

pub(crate) fn queue(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "QUEUE")
}

pub(crate) fn journal(id: AgentSessionId, sequence: u64) -> Key {
    Key::new(session_partition(id), journal_sort(sequence))
}

/// The largest sequence that sorts by its sixteen digits.
pub(crate) const MAX_SEQUENCE: u64 = 9_999_999_999_999_999;

pub(crate) fn journal_sort(sequence: u64) -> String {
    format!("J#{sequence:016}")
}

pub(crate) fn sent(id: AgentSessionId, message: MessageId) -> Key {
    Key::new(session_partition(id), format!("M#{message}"))
}

pub(crate) fn message(id: AgentSessionId, message: MessageId) -> Key {
    Key::new(session_partition(id), format!("D#{message}"))
}

pub(crate) fn subagent(id: AgentSessionId, subagent: &SubAgentId) -> Key {
    Key::new(session_partition(id), format!("{SUBAGENTS}{subagent}"))
}

pub(crate) const SUBAGENTS: &str = "SUB#";

pub(crate) fn parked(id: AgentSessionId, run: RunId, sequence: u64) -> Key {
    Key::new(session_partition(id), format!("PARK#{run}#{sequence:016}"))
}

pub(crate) fn set_aside(id: AgentSessionId, run: RunId, sequence: u64) -> Key {
    Key::new(session_partition(id), format!("ASIDE#{run}#{sequence:016}"))
}

pub(crate) fn beat(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "BEAT")
}

pub(crate) fn claim(id: AgentSessionId, run: RunId) -> Key {
    Key::new(session_partition(id), format!("RUN#{run}"))
}

pub(crate) const TASKS: &str = "TASK#";

pub(crate) fn task(id: AgentSessionId, task: AgentTaskId) -> Key {
    Key::new(session_partition(id), format!("{TASKS}{task}"))
}

pub(crate) const LEARNINGS: &str = "LEARN#";

pub(crate) fn learning(id: AgentSessionId, learning: AgentLearningId) -> Key {
    Key::new(session_partition(id), format!("{LEARNINGS}{learning}"))
}

/// What the agents of an owner learned, in the Listing index.
pub fn learnings_partition(owner: &UserId) -> String {
    format!("L#{owner}")
}

pub(crate) fn listed_learning(owner: &UserId, learning: AgentLearningId) -> Key {
    Key::new(learnings_partition(owner), learning.to_string())
}

pub(crate) fn told(owner: &UserId, entry: EventId) -> Key {
    Key::new(feed_partition(owner), format!("TOLD#{entry}"))
}

/// What is told of an owner, in the table.
pub fn feed_partition(owner: &UserId) -> String {
    format!("F#{owner}")
}

pub(crate) fn feed(owner: &UserId) -> Key {
    Key::new(feed_partition(owner), "HEAD")
}

pub(crate) const ANNOUNCEMENTS: &str = "E#";

pub(crate) fn announcement(owner: &UserId, sequence: u64) -> Key {
    Key::new(feed_partition(owner), format!("{ANNOUNCEMENTS}{sequence:016}"))
}

pub(crate) const NOTIFICATIONS: &str = "N#";

pub(crate) fn notification(owner: &UserId, sequence: u64) -> Key {
    Key::new(feed_partition(owner), format!("{NOTIFICATIONS}{sequence:016}"))
}

/// What an owner has not read, in the Listing index.
pub fn unread_partition(owner: &UserId) -> String {
    format!("U#{owner}")
}

pub(crate) fn unread(owner: &UserId, sequence: u64) -> Key {
    Key::new(unread_partition(owner), format!("{sequence:016}"))
}

/// The webhooks of an owner, in the table.
pub fn webhooks_partition(owner: &UserId) -> String {
    format!("H#{owner}")
}

pub(crate) fn webhook(owner: &UserId, id: WebhookId) -> Key {
    Key::new(webhooks_partition(owner), id.to_string())
}

/// The deliveries of a webhook, in the table.
pub fn deliveries_partition(id: WebhookId) -> String {
    format!("D#{id}")
}

pub(crate) fn delivery(id: WebhookId, sequence: u64) -> Key {
    Key::new(deliveries_partition(id), format!("{sequence:016}"))
}

pub(crate) fn calls(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "CALLS")
}

pub(crate) const WATCHERS: &str = "CONN#";

pub(crate) fn watcher(id: AgentSessionId, connection: &ConnectionId) -> Key {
    Key::new(session_partition(id), format!("{WATCHERS}{connection}"))
}

pub(crate) fn connection(id: &ConnectionId) -> Key {
    Key::new(format!("C#{id}"), "CONN")
}

/// The sessions of an owner, in the Listing index.
pub fn owner_partition(owner: &UserId) -> String {
    format!("O#{owner}")
}

/// The workers of an owner, in the table.
pub fn workers_partition(owner: &UserId) -> String {
    format!("W#{owner}")
}

pub(crate) fn worker(key: &WorkerKey) -> Key {
    Key::new(workers_partition(&key.owner), key.id.as_str())
}

pub(crate) const SHARED_WORKERS: &str = "W*";

pub(crate) fn shared_worker(key: &WorkerKey) -> Key {
    Key::new(SHARED_WORKERS, format!("{}#{}", key.owner, key.id))
}

pub(crate) fn placement(run: RunId) -> Key {
    Key::new(format!("R#{run}"), "PLACE")
}

pub(crate) fn whose(run: RunId) -> Key {
    Key::new(format!("R#{run}"), "WHOSE")
}

pub(crate) fn sweep() -> Key {
    Key::new("SWEEP", "PLACE")
}

pub(crate) const WAITING: &str = "WAITING";

pub(crate) fn waiting_of(owner: &UserId) -> String {
    format!("{WAITING}#{owner}")
}

pub(crate) fn home(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "HOME")
}

pub(crate) fn pool(owner: &UserId) -> Key {
    Key::new(owner_partition(owner), "POOL")
}

pub(crate) fn answer(owner: &UserId, key_hash: &str) -> Key {
    Key::new(format!("I#{owner}#{key_hash}"), "ANSWER")
}

pub(crate) fn owned(kind: &str, id: &str) -> Key {
    Key::new(format!("A#{kind}#{id}"), "ROOT")
}

pub(crate) fn owned_journal(kind: &str, id: &str, sequence: u64) -> Key {
    Key::new(format!("A#{kind}#{id}"), journal_sort(sequence))
}

/// The place before the records of a group, and of one of them.
pub(crate) fn owned_record_sort(group: &str, id: &str) -> String {
    format!("R#{group}#{id}")
}

pub(crate) fn owned_record(kind: &str, id: &str, group: &str, record: &str) -> Key {
    Key::new(format!("A#{kind}#{id}"), owned_record_sort(group, record))
}

/// The aggregate that an item belongs to.
pub(crate) fn owned_of(key: &Key) -> Option<OwnedRef> {
    let (kind, id) = key.partition.strip_prefix("A#")?.split_once('#')?;
    Some(OwnedRef { kind: kind.to_owned(), id: id.to_owned() })
}

/// The aggregates of one kind and owner, in the Listing index.
pub fn owned_partition(owner: &UserId, kind: &str) -> String {
    format!("K#{kind}#{owner}")
}

pub(crate) fn owned_listing(owner: &UserId, kind: &str, sort: String) -> Key {
    Key::new(owned_partition(owner, kind), sort)
}

pub(crate) fn owned_name(owner: &UserId, kind: &str, hash: &str) -> Key {
    Key::new(owner_partition(owner), format!("NAME#{kind}#{hash}"))
}

/// The partition of the Due index with aggregates that are no sessions: few are ever due.
pub(crate) const DUE_OWNED: &str = "DUE#OWNED";

pub(crate) fn owned_due(kind: &str, id: &str, at: Timestamp) -> Key {
    Key::new(DUE_OWNED, format!("{:016}#{kind}#{id}", at.as_millis().max(0)))
}

pub(crate) fn relay() -> Key {
    Key::new("RELAY", "PLACE")
}

pub(crate) fn listing(owner: &UserId, id: AgentSessionId) -> Key {
    Key::new(owner_partition(owner), id.to_string())
}

/// How far the clock of who makes ids may be from that of who tells when something was created.
const SKEW: Duration = Duration::from_mins(1);

/// The ids (`UUIDv7`) that were made from `from` to `to`, with some to spare.
pub(crate) fn created_between(from: Option<Timestamp>, to: Option<Timestamp>) -> SortRange {
    // Twelve hexadecimal digits of milliseconds, as a UUID begins.
    let id = |millis: i64| {
        let millis = millis.clamp(0, (1 << 48) - 1);
        format!("{:08x}-{:04x}", millis >> 16, millis & 0xffff)
    };
    let skew = i64::try_from(SKEW.as_millis()).unwrap_or(0);
    match (from, to) {
        (None, None) => SortRange::All,
        (from, to) => SortRange::Between(
            from.map_or_else(String::new, |from| id(from.as_millis().saturating_sub(skew))),
            format!("{}~", id(to.map_or(i64::MAX, |to| to.as_millis().saturating_add(skew)))),
        ),
    }
}

pub(crate) fn due_partition(shard: u8) -> String {
    format!("DUE#{shard}")
}

pub(crate) fn due(id: AgentSessionId, at: Timestamp) -> Key {
    let shard = id.uuid().as_bytes()[15] % DUE_SHARDS;
    Key::new(due_partition(shard), format!("{:016}#{id}", at.as_millis().max(0)))
}

/// Where a session stands in the Due index whose next deadline is `at`: where it stood `before`, if that is still ahead
/// and not too late. Each event of an agent moves its silence a little; an index entry that moved with it would be
/// billed twice for each. Whoever looks at an entry that came early moves it on.
pub(crate) fn due_place(id: AgentSessionId, at: Timestamp, before: Option<&Key>, now: Timestamp) -> Key {
    let ahead = |place: &Key| due_at(place).is_some_and(|stood| now < stood && stood <= at);
    before.filter(|place| ahead(place)).cloned().unwrap_or_else(|| due(id, at))
}

/// When something is due, by the place in the Due index.
pub fn due_at(place: &Key) -> Option<Timestamp> {
    let (millis, _) = place.sort.split_once('#')?;
    millis.parse().ok().map(Timestamp::from_millis)
}

/// The due keys up to and including `at`.
pub(crate) fn due_until(at: Timestamp) -> String {
    format!("{:016}#~", at.as_millis().max(0))
}

/// Which view of the journal an entry is in. Each entry is in one at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum View {
    /// A message of the conversation.
    Message {
        /// The subagent that says it.
        subagent: Option<SubAgentId>,
    },
    /// A tool call; its result is listed beside it.
    ToolCall {
        /// The call.
        call: ToolCallId,
        /// The subagent that made it.
        subagent: Option<SubAgentId>,
    },
    /// The result of a tool call.
    ToolResult {
        /// The journal sequence of its call, when that is known.
        called_at: Option<u64>,
        /// The subagent that made the call.
        subagent: Option<SubAgentId>,
    },
    /// A piece of log.
    Log,
}

/// The messages of a session or a subagent, in the Listing index.
pub fn messages_partition(id: AgentSessionId, subagent: Option<&SubAgentId>) -> String {
    format!("V#{id}#M#{}", subagent.map_or("", SubAgentId::as_str))
}

/// The tool calls of a session or a subagent, in the Listing index.
pub fn tool_calls_partition(id: AgentSessionId, subagent: Option<&SubAgentId>) -> String {
    format!("V#{id}#T#{}", subagent.map_or("", SubAgentId::as_str))
}

/// The log of a session, in the Listing index.
pub fn logs_partition(id: AgentSessionId) -> String {
    format!("V#{id}#L")
}

impl View {
    /// The place of the entry `sequence` in this view.
    pub(crate) fn place(&self, id: AgentSessionId, sequence: u64) -> Key {
        match self {
            Self::Message { subagent } => {
                Key::new(messages_partition(id, subagent.as_ref()), format!("{sequence:016}"))
            }
            Self::ToolCall { subagent, .. } => {
                Key::new(tool_calls_partition(id, subagent.as_ref()), format!("{sequence:016}#0"))
            }
            Self::ToolResult { called_at, subagent } => Key::new(
                tool_calls_partition(id, subagent.as_ref()),
                format!("{:016}#1", called_at.unwrap_or(sequence)),
            ),
            Self::Log => Key::new(logs_partition(id), format!("{sequence:016}")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn ids_of_a_range_of_time_are_those_that_were_made_in_it() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8058";
        let made = 0x0189_0a5d_ac96;
        let within = |from: i64, to: i64| match created_between(Some(at(made + from)), Some(at(made + to))) {
            SortRange::Between(first, last) => (first.as_str()..=last.as_str()).contains(&id),
            _ => false,
        };
        assert!(within(0, 0) && within(-5, 5) && within(30_000, 90_000) && within(-90_000, -30_000));
        assert!(!within(120_000, 240_000) && !within(-240_000, -120_000));
        assert!(
            matches!(created_between(None, Some(at(5))), SortRange::Between(first, _) if first.is_empty())
        );
        assert_eq!(created_between(None, None), SortRange::All);
    }

    #[test]
    fn a_deadline_that_moves_away_keeps_its_place_until_that_has_come() {
        let id = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let stood = due(id, at(90_000));
        assert_eq!(due_at(&stood), Some(at(90_000)));
        assert_eq!(due_place(id, at(95_000), Some(&stood), at(5_000)), stood, "it is looked at in time");
        assert_eq!(due_place(id, at(40_000), Some(&stood), at(5_000)), due(id, at(40_000)), "it came nearer");
        assert_eq!(due_place(id, at(180_000), Some(&stood), at(90_000)), due(id, at(180_000)), "it has come");
        assert_eq!(due_place(id, at(90_000), None, at(0)), stood);
    }
}
