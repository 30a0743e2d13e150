//! Layout of the table. All keys are made here.
//!
//! | item | partition | sort | kind |
//! |---|---|---|---|
//! | session | `S#{session}` | `SESSION` | `session` |
//! | message queue | `S#{session}` | `QUEUE` | `queue` |
//! | journal entry | `S#{session}` | `J#{sequence}` | `journal` |
//! | hash of a sent message | `S#{session}` | `M#{message}` | `sent` |
//! | message that left the queue | `S#{session}` | `D#{message}` | `message` |
//! | subagent | `S#{session}` | `SUB#{subagent}` | `subagent` |
//! | decision of the inbox | `Q#{decision}` | `DECISION` | `decision` |
//! | entry of a decision log | `LOG#{entry}` | `ENTRY` | `logged-decision` |
//! | parked envelope | `S#{session}` | `PARK#{run}#{sequence}` | `parked` |
//! | last heartbeat | `S#{session}` | `BEAT` | `beat` |
//! | claim of a run | `S#{session}` | `RUN#{run}` | `claim` |
//! | quarantined event | `S#{session}` | `QUARANTINE#{run}#{sequence}` | `quarantined` |
//! | cursor of a connection | `S#{session}` | `CONN#{connection}` | `watcher` |
//! | connection that follows an inbox | `O#{owner}` | `CONN#{connection}` | `watcher` |
//! | task of an agent | `S#{session}` | `TASK#{task}` | `task` |
//! | learning of an agent | `S#{session}` | `LEARN#{learning}` | `learning` |
//! | rate gauge of the agent API | `S#{session}` | `CALLS` | `calls` |
//! | live connection | `C#{connection}` | `CONN` | `connection` |
//! | feed numbers of a journal entry, or of a disabled webhook | `F#{owner}` | `PUBLISHED#{entry}` | `published` |
//! | head of the event feed | `F#{owner}` | `HEAD` | `feed` |
//! | announcement | `F#{owner}` | `E#{sequence}` | `announcement` |
//! | notification | `F#{owner}` | `N#{sequence}` | `notification` |
//! | webhook | `H#{owner}` | `{webhook}` | `webhook` |
//! | guard of the number of webhooks | `O#{owner}` | `WEBHOOKS` | `webhooks-guard` |
//! | browsers of an owner that receive notifications | `O#{owner}` | `WEB-PUSH` | `web-push` |
//! | browsers in which an owner is logged in to the console | `O#{owner}` | `LOGINS` | `console-logins` |
//! | delivery | `D#{webhook}` | `{sequence}` | `delivery` |
//! | guard of a pool, with its leases and brakes | `O#{owner}` | `POOL` | `pool` |
//! | session that waits for a slot | `P#{owner}` | `LINE#{since}#{session}` | `waiting` |
//! | occupied place of the waiting line | `P#{owner}` | `PLACE#{place}` | `waiting-place` |
//! | worker | `W#{owner}` | `{worker}` | `worker` |
//! | placement of a run | `R#{run}` | `PLACE` | `placement` |
//! | worker with a session's folders | `S#{session}` | `HOME` | `home` |
//! | brake, chain, skill, template, project, its account, agent, coherence issue | `A#{kind}#{id}` | `ROOT` | its kind |
//! | journal entry of an aggregate | `A#{kind}#{id}` | `J#{sequence}` | `aggregate-journal` |
//! | clock of a project | `T#{project}` | `CLOCK` | `tick-clock` |
//! | outcome that changed an agent's trust | `G#{agent}` | `{source of the outcome}` | `counted-outcome` |
//! | artifact in a list of its project | `A#artifact#{id}` | `LIST#{list}` | `artifact-in-list` |
//! | artifact that is a copy of a file | `AP#{project}#{hash of the path}` | `{artifact}` | `artifact-path` |
//! | artifact with a content | `AH#{project}#{hash of the content}` | `{artifact}` | `artifact-hash` |
//! | recommendation of a decision for an artifact | `AD#{project}#{artifact}` | `{time}#{decision}` | `recommendation` |
//! | choice that was made in a project | `DR#{project}` | `{time}#{decision}` | `resolved-decision` |
//! | last comparison of the texts of a project | `T#{project}` | `COHERENCE` | `coherence-scan` |
//! | reviews and embeddings of a project | `T#{project}` | `REVIEWS` | `coherence-reviews` |
//! | vector of a text | `EV#{project}` | `{hash of model and text}` | `embedding` |
//! | session that has a word | `OW#{owner}#{word}` | `{id}` | `session-posting` |
//! | artifact or objective that has a word | `AW#{project}#{word}` | `{workstream}#{kind}#{id}` | `posting` |
//! | words of an artifact or of an agent's objective | `AT#{kind}#{id}` | `TERMS` | `search-terms` |
//! | latest snapshot of an agent's knowledge | `AS#{agent}` | `SNAPSHOT` | `snapshot` |
//! | injections of an agent | `AS#{agent}` | `INJECTIONS` | `injections` |
//! | number of a project's artifacts | `T#{project}` | `ARTIFACTS` | `artifact-tally` |
//! | artifact that was counted | `A#artifact#{id}` | `COUNTED` | `artifact-counted` |
//! | removed part of an aggregate | `A#{kind}#{id}` | `R#{group}#{part}` | `record` |
//! | reserved name | `O#{owner}` | `NAME#{kind}#{hash of the name}` | `name` |
//! | idempotency record | `I#{owner}#{hash of the key}` | `RESPONSE` | `response` |
//! | refusal of a text that was recorded | `I#{owner}#{hash of key, request and guardrails}` | `REFUSAL` | `refusal` |
//! | session of a run | `R#{run}` | `SESSION` | `run-session` |
//! | position of the relay | `RELAY` | `PLACE` | `place` |
//! | position of the sweep of queues | `SWEEP` | `PLACE` | `place` |
//! | last sweep of the clock | `SWEEP` | `CLOCK` | `sweep` |
//! | time up to which a run's events are processed | `S#{session}` | `PROCESSED` | `processed` |
//! | redrive of dead letters | `OPERATIONS` | `REDRIVE#{redrive}` | `redrive` |
//!
//! The Listing index contains an owner's sessions (`O#{owner}`, by id and therefore by creation time), an owner's other aggregates
//! (`K#{kind}#{owner}`), learnings (`L#{owner}`, by id), unread notifications (`U#{owner}`, by sequence), the views of a journal
//! (`V#{session}#…`), open decisions of an owner (`QO#{owner}`, by severity, blast radius and creation), suspended ones (`QS#{owner}`) and those that are over
//! (`QD#{owner}`, by the time of their end), the decision log of a project (`LOG#{project}`, by time), shared workers (`W*`), and
//! unclaimed runs by owner (`WAITING#{owner}`).
//! Artifacts are listed by project in `K#artifact#{owner}`, and by workstream, agent, kind and state in `AL#{project}#{list}#{value}`,
//! in both by the time of their last change.
//! Coherence issues are listed in `K#coherence-issue#{owner}` by project, the open ones apart from the others, each by time.
//!
//! The Due index contains sessions by their next deadline, spread over several partitions to avoid a hot one, other aggregates
//! and free decisions (`DUE#AGGREGATES`), and all unclaimed runs (`WAITING`).

use std::time::Duration;

use pilothouse_domain::artifact::{ArtifactPath, ArtifactSummary};
use pilothouse_domain::coherence::ResolvedDecision;
use pilothouse_domain::coherence::structural::Recommendation;
use pilothouse_domain::decision::{Decision, DecisionLogEntry, DecisionState};
use pilothouse_domain::effect::{BlastRadius, Severity};
use pilothouse_domain::text::{ModelId, WorkstreamId};
use pilothouse_domain::trust::OutcomeSource;
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{
    AgentLearningId, AgentSessionId, AgentTaskId, Aggregate, ArtifactId, DecisionId, EventId, MessageId,
    Project, ProjectAgentId, ProjectId, RunId, SubAgentId, Timestamp, ToolCallId, UserId, WebhookId,
};

use pilothouse_wire::keys::sha256_hex;

use crate::ids::{AggregateRef, ConnectionId, Followed, WorkerKey};
use crate::table::{Key, SortRange};

pub const DUE_SHARDS: u8 = 4;

/// Version of the stored format. A host refuses data of another version. Within a version, the keys of SQLite files change by steps of
/// its schema.
pub const DATA_FORMAT: u32 = 1;

pub const SESSION: &str = "session";
pub const JOURNAL: &str = "journal";

/// Kind of a journal entry of an aggregate other than a session.
pub const AGGREGATE_JOURNAL: &str = "aggregate-journal";

/// Kind of the items of decisions. Live streams follow them.
pub const DECISION: &str = "decision";

/// The relay reads the outbox.
pub fn is_outbox(kind: &str) -> bool {
    matches!(kind, JOURNAL | AGGREGATE_JOURNAL)
}

pub fn session_of(key: &Key) -> Option<AgentSessionId> {
    session_of_partition(&key.partition)
}

pub fn session_of_partition(partition: &str) -> Option<AgentSessionId> {
    partition.strip_prefix("S#")?.parse().ok()
}

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

/// Largest sequence with sixteen digits, so that all sequences sort as text.
pub(crate) const MAX_SEQUENCE: u64 = 9_999_999_999_999_999;

/// Prefix of the sort keys of journal entries.
pub(crate) const JOURNAL_ENTRIES: &str = "J#";

pub(crate) fn journal_sort(sequence: u64) -> String {
    format!("{JOURNAL_ENTRIES}{sequence:016}")
}

/// The sequence of a journal entry with this sort key.
pub(crate) fn journal_sequence(sort: &str) -> Option<u64> {
    sort.strip_prefix(JOURNAL_ENTRIES)?.parse().ok()
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

/// Prefix of the partitions of decisions.
const DECISIONS: &str = "Q#";

pub(crate) fn decision(id: DecisionId) -> Key {
    Key::new(format!("{DECISIONS}{id}"), "DECISION")
}

/// Pending and orphaned decisions of an owner, in the Listing index.
pub fn open_decisions_partition(owner: &UserId) -> String {
    format!("QO#{owner}")
}

/// Decisions of an owner's sessions that a brake stops, in the Listing index.
pub fn suspended_decisions_partition(owner: &UserId) -> String {
    format!("QS#{owner}")
}

/// Decisions of an owner that are over, in the Listing index.
pub fn ended_decisions_partition(owner: &UserId) -> String {
    format!("QD#{owner}")
}

/// Place of a decision in the Listing index: while it is open or suspended by severity and blast radius, strictest first, then by creation;
/// afterwards by the time of its end.
pub(crate) fn listed_decision(decision: &Decision) -> Key {
    let Decision { id, owner_id, .. } = decision;
    let millis = |at: Timestamp| at.as_millis().max(0);
    match decision.state.ended_at() {
        None => {
            let partition = match &decision.state {
                DecisionState::Suspended { .. } => suspended_decisions_partition(owner_id),
                _ => open_decisions_partition(owner_id),
            };
            let (severity, radius) = decision.rank();
            let severity = Severity::ALL.iter().rev().position(|other| *other == severity).unwrap_or(0);
            let radius = BlastRadius::ALL.iter().rev().position(|other| *other == radius).unwrap_or(0);
            let created = millis(decision.created_at);
            Key::new(partition, format!("{severity}{radius}#{created:016}#{id}"))
        }
        Some(at) => Key::new(ended_decisions_partition(owner_id), format!("{:016}#{id}", millis(at))),
    }
}

pub(crate) fn logged_decision(key: &str) -> Key {
    Key::new(format!("LOG#{key}"), "ENTRY")
}

/// The decision log of a project, in the Listing index.
pub fn decision_log_partition(project: ProjectId) -> String {
    format!("LOG#{project}")
}

/// Place of an entry in the decision log: by time.
pub(crate) fn listed_decision_log(entry: &DecisionLogEntry) -> Key {
    let at = decision_log_sort(entry.at);
    Key::new(decision_log_partition(entry.project_id), format!("{at}#{}", entry.logged.key()))
}

fn decision_log_sort(at: Timestamp) -> String {
    format!("{:016}", at.as_millis().max(0))
}

/// Entries of a decision log from `since` until before `until`.
pub(crate) fn logged_between(since: Option<Timestamp>, until: Option<Timestamp>) -> SortRange {
    let end = until.map_or_else(|| "~".to_owned(), decision_log_sort);
    SortRange::Between(since.map_or_else(String::new, decision_log_sort), end)
}

pub(crate) fn parked(id: AgentSessionId, run: RunId, sequence: u64) -> Key {
    Key::new(session_partition(id), format!("PARK#{run}#{sequence:016}"))
}

pub(crate) fn quarantine_event(id: AgentSessionId, run: RunId, sequence: u64) -> Key {
    Key::new(session_partition(id), format!("QUARANTINE#{run}#{sequence:016}"))
}

pub(crate) fn heartbeat(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "BEAT")
}

pub(crate) fn processed(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "PROCESSED")
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

pub fn learnings_partition(owner: &UserId) -> String {
    format!("L#{owner}")
}

pub(crate) fn listed_learning(owner: &UserId, learning: AgentLearningId) -> Key {
    Key::new(learnings_partition(owner), learning.to_string())
}

pub(crate) fn published_range(owner: &UserId, entry: EventId) -> Key {
    Key::new(feed_partition(owner), format!("PUBLISHED#{entry}"))
}

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

pub fn unread_partition(owner: &UserId) -> String {
    format!("U#{owner}")
}

pub(crate) fn unread(owner: &UserId, sequence: u64) -> Key {
    Key::new(unread_partition(owner), format!("{sequence:016}"))
}

pub fn webhooks_partition(owner: &UserId) -> String {
    format!("H#{owner}")
}

pub(crate) fn webhook(owner: &UserId, id: WebhookId) -> Key {
    Key::new(webhooks_partition(owner), id.to_string())
}

pub(crate) fn webhooks_guard(owner: &UserId) -> Key {
    Key::new(owner_partition(owner), "WEBHOOKS")
}

pub(crate) fn web_push_subscriptions(owner: &UserId) -> Key {
    Key::new(owner_partition(owner), "WEB-PUSH")
}

pub(crate) fn console_logins(owner: &UserId) -> Key {
    Key::new(owner_partition(owner), "LOGINS")
}

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

/// Where the connections are that follow a session, an inbox or a project.
pub(crate) fn watchers_partition(followed: &Followed) -> String {
    match followed {
        Followed::Session(id) => session_partition(*id),
        Followed::Inbox(owner) => owner_partition(owner),
        Followed::Project(id) => aggregate_journal_partition::<Project>(*id),
    }
}

pub(crate) fn watcher(followed: &Followed, connection: &ConnectionId) -> Key {
    Key::new(watchers_partition(followed), format!("{WATCHERS}{connection}"))
}

pub(crate) fn connection(id: &ConnectionId) -> Key {
    Key::new(format!("C#{id}"), "CONN")
}

/// Sessions of an owner, in the Listing index. Also the partition of the owner's own items.
pub fn owner_partition(owner: &UserId) -> String {
    format!("O#{owner}")
}

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

pub(crate) fn run_session(run: RunId) -> Key {
    Key::new(format!("R#{run}"), "SESSION")
}

pub(crate) fn clock_sweep() -> Key {
    Key::new("SWEEP", "CLOCK")
}

pub(crate) fn sweep() -> Key {
    Key::new("SWEEP", "PLACE")
}

pub(crate) const WAITING: &str = "WAITING";

pub(crate) fn waiting_partition(owner: &UserId) -> String {
    format!("{WAITING}#{owner}")
}

pub(crate) fn home(id: AgentSessionId) -> Key {
    Key::new(session_partition(id), "HOME")
}

pub(crate) fn pool(owner: &UserId) -> Key {
    Key::new(owner_partition(owner), "POOL")
}

pub(crate) fn pool_partition(owner: &UserId) -> String {
    format!("P#{owner}")
}

pub(crate) const POOL_LINE: &str = "LINE#";

pub(crate) fn pool_line(owner: &UserId, since: Timestamp, id: AgentSessionId) -> Key {
    let since = since.as_millis().max(0);
    Key::new(pool_partition(owner), format!("{POOL_LINE}{since:016}#{id}"))
}

pub(crate) fn pool_place(owner: &UserId, place: u16) -> Key {
    Key::new(pool_partition(owner), format!("PLACE#{place:03}"))
}

/// The partition that names the unit of an item: a session and its queue, or a pool and its line.
pub(crate) fn unit_of(Key { partition, sort }: &Key) -> Option<String> {
    match sort.as_str() {
        "SESSION" | "QUEUE" => partition.starts_with("S#").then(|| partition.clone()),
        "POOL" => partition.strip_prefix("O#").map(|owner| format!("P#{owner}")),
        line if line.starts_with(POOL_LINE) => partition.starts_with("P#").then(|| partition.clone()),
        _ => None,
    }
}

pub(crate) fn stored_response(owner: &UserId, key_hash: &str) -> Key {
    Key::new(format!("I#{owner}#{key_hash}"), "RESPONSE")
}

pub(crate) fn recorded_refusal(owner: &UserId, hash: &str) -> Key {
    Key::new(format!("I#{owner}#{hash}"), "REFUSAL")
}

pub(crate) fn aggregate(kind: &str, id: &str) -> Key {
    Key::new(format!("A#{kind}#{id}"), "ROOT")
}

pub(crate) fn aggregate_journal(kind: &str, id: &str, sequence: u64) -> Key {
    Key::new(format!("A#{kind}#{id}"), journal_sort(sequence))
}

/// Partition of an aggregate's own items, such as its journal.
pub fn aggregate_journal_partition<A: Aggregate>(id: A::Id) -> String {
    aggregate(A::KIND, &id.to_string()).partition
}

/// Sort key of a record; with an empty `id`, the prefix of its group.
pub(crate) fn archived_part_sort(group: &str, id: &str) -> String {
    format!("R#{group}#{id}")
}

pub(crate) fn archived_part(kind: &str, id: &str, group: &str, record: &str) -> Key {
    Key::new(format!("A#{kind}#{id}"), archived_part_sort(group, record))
}

/// The aggregate with this key. A free decision counts as one of the kind [`DECISION`].
pub(crate) fn aggregate_of(key: &Key) -> Option<AggregateRef> {
    if let Some(id) = key.partition.strip_prefix(DECISIONS) {
        return Some(AggregateRef { kind: DECISION.to_owned(), id: id.to_owned() });
    }
    if key.sort == INJECTIONS_SORT {
        let id = key.partition.strip_prefix(KNOWLEDGE_OF_AGENT)?;
        return Some(AggregateRef { kind: INJECTIONS.to_owned(), id: id.to_owned() });
    }
    let (kind, id) = key.partition.strip_prefix("A#")?.split_once('#')?;
    Some(AggregateRef { kind: kind.to_owned(), id: id.to_owned() })
}

pub(crate) fn tick_clock(project: ProjectId) -> Key {
    Key::new(format!("T#{project}"), "CLOCK")
}

pub(crate) fn counted_outcome(agent: ProjectAgentId, source: OutcomeSource) -> Key {
    Key::new(format!("G#{agent}"), source.to_string())
}

/// A list of a project's artifacts that have a value in common: `workstream`, `agent`, `kind` or `state`. In the Listing index.
pub(crate) fn artifacts_partition(project: ProjectId, list: &str, value: &str) -> String {
    format!("AL#{project}#{list}#{value}")
}

pub(crate) fn artifact_in_list(id: ArtifactId, list: &str) -> Key {
    Key::new(aggregate("artifact", &id.to_string()).partition, format!("LIST#{list}"))
}

/// Place of an artifact in a list: by the time of its last change.
pub(crate) fn listed_artifact(artifact: &ArtifactSummary, list: &str, value: &str) -> Key {
    let millis = artifact.updated_at.as_millis().max(0);
    Key::new(artifacts_partition(artifact.project_id, list, value), format!("{millis:016}#{}", artifact.id))
}

/// Artifacts of a project that are copies of one file: an item for each artifact.
pub(crate) fn artifacts_at_path(project: ProjectId, path: &ArtifactPath) -> String {
    format!("AP#{project}#{}", sha256_hex(path.as_str().as_bytes()))
}

/// Artifacts of a project with one content.
pub(crate) fn artifacts_with_hash(project: ProjectId, hash: &ContentHash) -> String {
    format!("AH#{project}#{hash}")
}

/// Artifacts and objectives of a project that have a word.
pub(crate) fn postings_partition(project: ProjectId, term: &str) -> String {
    format!("AW#{project}#{term}")
}

/// Sessions of an owner that have a word.
pub(crate) fn session_postings_partition(owner: &UserId, term: &str) -> String {
    format!("OW#{owner}#{term}")
}

/// Prefix of the sort keys of one workstream in [`postings_partition`].
pub(crate) fn postings_of(workstream: &WorkstreamId) -> String {
    format!("{workstream}#")
}

pub(crate) fn search_terms(subject: &str) -> Key {
    Key::new(format!("AT#{subject}"), "TERMS")
}

pub(crate) fn snapshot(agent: ProjectAgentId) -> Key {
    Key::new(format!("{KNOWLEDGE_OF_AGENT}{agent}"), "SNAPSHOT")
}

pub(crate) fn recommendations_partition(project: ProjectId, artifact: ArtifactId) -> String {
    format!("AD#{project}#{artifact}")
}

/// By time.
pub(crate) fn recommendation(project: ProjectId, artifact: ArtifactId, it: &Recommendation) -> Key {
    let at = it.proposed_at.as_millis().max(0);
    Key::new(recommendations_partition(project, artifact), format!("{at:016}#{}", it.decision_id))
}

pub(crate) fn resolved_decisions_partition(project: ProjectId) -> String {
    format!("DR#{project}")
}

/// By time.
pub(crate) fn resolved_decision(it: &ResolvedDecision) -> Key {
    let at = it.resolved_at.as_millis().max(0);
    Key::new(resolved_decisions_partition(it.project_id), format!("{at:016}#{}", it.decision_id))
}

/// The vector that a model made of a text.
pub(crate) fn embedding(project: ProjectId, model: &ModelId, text: &str) -> Key {
    Key::new(format!("EV#{project}"), sha256_hex(format!("{model}\n{text}").as_bytes()))
}

pub(crate) fn coherence_scan(project: ProjectId) -> Key {
    Key::new(format!("T#{project}"), "COHERENCE")
}

pub(crate) fn coherence_reviews(project: ProjectId) -> Key {
    Key::new(format!("T#{project}"), "REVIEWS")
}

pub(crate) fn injections(agent: ProjectAgentId) -> Key {
    Key::new(format!("{KNOWLEDGE_OF_AGENT}{agent}"), INJECTIONS_SORT)
}

/// Prefix of the partitions with the knowledge of agents.
const KNOWLEDGE_OF_AGENT: &str = "AS#";
const INJECTIONS_SORT: &str = "INJECTIONS";
/// Kind of the items with the injections of agents. The clock processes their deadlines.
pub const INJECTIONS: &str = "injections";

pub(crate) fn artifact_tally(project: ProjectId) -> Key {
    Key::new(format!("T#{project}"), "ARTIFACTS")
}

pub(crate) fn artifact_counted(id: ArtifactId) -> Key {
    Key::new(aggregate("artifact", &id.to_string()).partition, "COUNTED")
}

pub fn aggregate_partition(owner: &UserId, kind: &str) -> String {
    format!("K#{kind}#{owner}")
}

pub(crate) fn aggregate_listing(owner: &UserId, kind: &str, sort: String) -> Key {
    Key::new(aggregate_partition(owner, kind), sort)
}

pub(crate) fn aggregate_name(owner: &UserId, kind: &str, hash: &str) -> Key {
    Key::new(owner_partition(owner), format!("NAME#{kind}#{hash}"))
}

/// Partition of the Due index for aggregates other than sessions. Few of them are ever due.
pub(crate) const DUE_AGGREGATES: &str = "DUE#AGGREGATES";

pub(crate) fn aggregate_due(kind: &str, id: &str, at: Timestamp) -> Key {
    Key::new(DUE_AGGREGATES, format!("{:016}#{kind}#{id}", at.as_millis().max(0)))
}

pub(crate) fn relay() -> Key {
    Key::new("RELAY", "PLACE")
}

pub(crate) fn listing(owner: &UserId, id: AgentSessionId) -> Key {
    Key::new(owner_partition(owner), id.to_string())
}

/// Tolerated difference between the clocks that create ids and record creation times.
const SKEW: Duration = Duration::from_mins(1);

/// Range of ids (`UUIDv7`) that were created between `from` and `to`, with a margin.
pub(crate) fn created_between(from: Option<Timestamp>, to: Option<Timestamp>) -> SortRange {
    // A UUID begins with twelve hexadecimal digits of milliseconds.
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

/// Place in the Due index for a session with the next deadline `at`. Keeps the place `before` if it is in the future and not too
/// late. Each event of an agent postpones a deadline a little, and moving the index entry each time would be billed twice. A sweep
/// that finds an entry early moves it.
pub(crate) fn due_place(id: AgentSessionId, at: Timestamp, before: Option<&Key>, now: Timestamp) -> Key {
    let ahead = |place: &Key| due_at(place).is_some_and(|stood| now < stood && stood <= at);
    before.filter(|place| ahead(place)).cloned().unwrap_or_else(|| due(id, at))
}

pub fn due_at(place: &Key) -> Option<Timestamp> {
    let (millis, _) = place.sort.split_once('#')?;
    millis.parse().ok().map(Timestamp::from_millis)
}

/// Upper bound of the sort keys that are due at `at`.
pub(crate) fn due_until(at: Timestamp) -> String {
    format!("{:016}#~", at.as_millis().max(0))
}

/// The view of the journal that lists an entry. An entry is in one view at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalView {
    Message {
        subagent: Option<SubAgentId>,
    },
    /// The result is listed after the call.
    ToolCall {
        call: ToolCallId,
        subagent: Option<SubAgentId>,
    },
    ToolResult {
        /// Journal sequence of the call, if known.
        called_at: Option<u64>,
        subagent: Option<SubAgentId>,
    },
    Log,
}

pub fn messages_partition(id: AgentSessionId, subagent: Option<&SubAgentId>) -> String {
    format!("V#{id}#M#{}", subagent.map_or("", SubAgentId::as_str))
}

pub fn tool_calls_partition(id: AgentSessionId, subagent: Option<&SubAgentId>) -> String {
    format!("V#{id}#T#{}", subagent.map_or("", SubAgentId::as_str))
}

pub fn logs_partition(id: AgentSessionId) -> String {
    format!("V#{id}#L")
}

impl JournalView {
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
    fn id_range_covers_the_ids_created_in_the_time_range() {
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
    fn postponed_deadline_keeps_its_place_until_it_comes() {
        let id = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let stood = due(id, at(90_000));
        assert_eq!(due_at(&stood), Some(at(90_000)));
        assert_eq!(due_place(id, at(95_000), Some(&stood), at(5_000)), stood, "it is processed in time");
        assert_eq!(
            due_place(id, at(40_000), Some(&stood), at(5_000)),
            due(id, at(40_000)),
            "it moved closer"
        );
        assert_eq!(due_place(id, at(180_000), Some(&stood), at(90_000)), due(id, at(180_000)), "it has come");
        assert_eq!(due_place(id, at(90_000), None, at(0)), stood);
    }
}
