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
//! | live connection | `C#{connection}` | `CONN` | `connection` |
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
//! aggregates (`K#{kind}#{owner}`), and the views of a journal (`V#{session}#…`). The Due index holds sessions by when something is due, over a few partitions so that no
//! single one is hot. Of workers, the Listing index holds those that serve everybody (`W*`); of runs, both indexes hold
//! those that nobody has claimed: Listing by owner (`WAITING#{owner}`), Due in one partition (`WAITING`).

use pilothouse_domain::{AgentSessionId, MessageId, RunId, SubAgentId, Timestamp, ToolCallId, UserId};

use crate::connections::ConnectionId;
use crate::owned::OwnedRef;
use crate::table::Key;
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
