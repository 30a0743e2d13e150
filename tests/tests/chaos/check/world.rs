//! The stored data, read through the crates that store it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use pilothouse_app::queues;
use pilothouse_broker::embedded::{self, EmbeddedBroker};
use pilothouse_broker::{Broker as _, DeadLetter, Depth, QueueName};
use pilothouse_domain::brake::Brake;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::{AgentSession, RunId, SessionEvent, Timestamp, UserId};
use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_sqlite::rusqlite::{Connection, OpenFlags};
use pilothouse_sqlite::{Database, system_clock};
use pilothouse_store::Store;
use pilothouse_store::sqlite::{self, SqliteTable};
use pilothouse_tests::processes;
use serde_json::Value;

/// Directories of finished runs that a worker keeps. It removes older ones, with their spools.
const KEPT_RUNS: usize = 500;

pub(super) struct World {
    pub(super) sessions: Vec<Session>,
    pub(super) pool: SessionPool,
    pub(super) brakes: Vec<Brake>,
    pub(super) queues: Vec<QueueName>,
    pub(super) depths: Vec<(&'static str, Depth)>,
    /// Journal entries after the position of the relay.
    pub(super) unrelayed: Vec<String>,
    pub(super) dead_letters: Vec<DeadLetter>,
    /// Keys of parked envelopes.
    pub(super) parked: Vec<String>,
}

#[allow(clippy::struct_field_names)] // the aggregate, and all that is stored beside it
pub(super) struct Session {
    pub(super) session: AgentSession,
    pub(super) queue: SessionMessageQueue,
    pub(super) journal: Vec<JournalEntry>,
    pub(super) spools: Vec<Spool>,
    /// Runs whose spool the worker has removed.
    pub(super) removed: BTreeSet<RunId>,
}

pub(super) struct Spool {
    pub(super) run: RunId,
    pub(super) entries: Vec<Spooled>,
}

pub(super) struct Spooled {
    pub(super) sequence: u64,
    /// Never sent because of a fault in the script.
    pub(super) never_sent: bool,
    /// Whether the sidecar has marked it as sent.
    pub(super) sent: bool,
    pub(super) body: Value,
}

impl World {
    pub(super) async fn load(data: &Path) -> Self {
        let file = data.join("pilothouse.db");
        let db = Database::open(&file, &[sqlite::SCHEMA, embedded::SCHEMA]).unwrap();
        let table = SqliteTable::new(db.clone(), system_clock());
        let store = Store::new(Arc::new(table.clone()));
        let broker = EmbeddedBroker::open(db, system_clock()).await.unwrap();
        let owner = UserId::parse(DEFAULT_OWNER).unwrap();
        let mut spools = spools(data);
        let removes_runs = spools.len() >= KEPT_RUNS;
        let mut sessions = Vec::new();
        let mut after = None;
        loop {
            let page = store.sessions(&owner, 100, after).await.unwrap();
            for session in page.items {
                let id = session.id();
                let queue = store.conversation(id).await.unwrap().unwrap().conversation.queue;
                let mut journal: Vec<JournalEntry> = Vec::new();
                loop {
                    let more = store
                        .journal(id, journal.last().map_or(0, |entry| entry.sequence), 200)
                        .await
                        .unwrap();
                    if more.is_empty() {
                        break;
                    }
                    journal.extend(more);
                }
                let (of_session, others) = spools.into_iter().partition(|(of, _)| *of == id.to_string());
                spools = others;
                let spools: Vec<Spool> = of_session.into_iter().map(|(_, spool)| spool).collect();
                let requested =
                    journal.iter().flat_map(|entry| &entry.events).filter_map(|event| match event {
                        SessionEvent::RunRequested { run_id, .. } if removes_runs => Some(*run_id),
                        _ => None,
                    });
                let removed = requested.filter(|run| !spools.iter().any(|spool| spool.run == *run)).collect();
                sessions.push(Session { session, queue, journal, spools, removed });
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert!(
            spools.is_empty(),
            "runs of unknown sessions: {:?}",
            spools.iter().map(|(of, _)| of).collect::<Vec<_>>()
        );
        let mut dead_letters = Vec::new();
        let mut depths = Vec::new();
        for (name, queue) in [("events", queues::events()), ("reactions", queues::reactions())] {
            dead_letters.extend(broker.receive_dead_letters(&queue, 10).await.unwrap());
            depths.push((name, broker.depth(&queue).await.unwrap()));
        }
        let unrelayed = table.feed(store.relay_position().await.unwrap(), 10).await.unwrap();
        let unrelayed = unrelayed.into_iter().map(|(_, item)| format!("{:?}", item.key)).collect();
        let pool = store.pool(&owner).await.unwrap().value;
        let mut brakes = Vec::new();
        let mut after = None;
        loop {
            let page = store.list_aggregates::<Brake>(&owner, false, 100, after).await.unwrap();
            brakes.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let queues = broker.list("commands-").await.unwrap();
        let parked = parked(&file);
        Self { sessions, pool, brakes, queues, depths, unrelayed, dead_letters, parked }
    }

    pub(super) fn summary(&self) -> String {
        let entries: usize = self.sessions.iter().map(|session| session.journal.len()).sum();
        let runs: usize = self.sessions.iter().map(|session| session.spools.len()).sum();
        let removed: usize = self.sessions.iter().map(|session| session.removed.len()).sum();
        let spooled: usize =
            self.sessions.iter().flat_map(|session| &session.spools).map(|spool| spool.entries.len()).sum();
        let of = |wanted: fn(&SessionEvent) -> bool| {
            self.sessions
                .iter()
                .flat_map(|s| &s.journal)
                .flat_map(|e| &e.events)
                .filter(|e| wanted(e))
                .count()
        };
        let delivered = of(|e| matches!(e, SessionEvent::MessageDelivered { .. }));
        let uncertain = of(|e| matches!(e, SessionEvent::MessageUncertain { .. }));
        let lost = of(|e| matches!(e, SessionEvent::EventsLost { .. }));
        let replays = of(|e| matches!(e, SessionEvent::ReplayRequested { .. }));
        let holds = of(|e| matches!(e, SessionEvent::Held { .. }));
        let statuses: BTreeSet<String> =
            self.sessions.iter().map(|s| s.session.status().to_string()).collect();
        format!(
            "{} sessions ({}), {runs} runs and {removed} removed ones, {spooled} spooled events, {entries} journal entries, {delivered} messages delivered, {uncertain} times uncertain, {replays} replays, {lost} gaps abandoned, {} brakes with {holds} holds",
            self.sessions.len(),
            statuses.into_iter().collect::<Vec<_>>().join(", "),
            self.brakes.len(),
        )
    }
}

impl Session {
    pub(super) fn id(&self) -> String {
        self.session.id().to_string()
    }

    /// All domain events with the sequence numbers of their entries.
    pub(super) fn events(&self) -> impl Iterator<Item = (u64, &SessionEvent)> {
        self.journal.iter().flat_map(|entry| entry.events.iter().map(move |event| (entry.sequence, event)))
    }

    /// All spooled events that the intake can parse.
    pub(super) fn spooled(&self) -> impl Iterator<Item = &Spooled> {
        self.spools.iter().flat_map(|spool| &spool.entries)
    }

    /// The state of the session in one line.
    pub(super) fn state(&self) -> String {
        let s = &self.session;
        let run = s.run().map(|run| format!("{} {:?} next {}", run.id, run.phase, run.inbox.next()));
        let queue: Vec<_> = self
            .queue
            .messages()
            .iter()
            .map(|m| {
                format!(
                    "{} {:?} sent {} uncertain {}",
                    m.message_id, m.priority, m.sent, m.delivery_uncertain
                )
            })
            .collect();
        format!(
            "status {} hibernated {} run {run:?} slot wanted {:?} budget {:?} held {} queue {queue:?}",
            s.status(),
            s.hibernated(),
            s.slot_wanted(),
            s.budget(),
            self.queue.is_held()
        )
    }

    /// The journal around a place, or its end.
    pub(super) fn excerpt(&self, place: Option<u64>, round: impl Fn(Timestamp) -> usize) -> String {
        let middle = place.unwrap_or_else(|| self.session.journal_sequence());
        let mut text = String::new();
        for entry in
            self.journal.iter().filter(|entry| entry.sequence + 14 > middle && entry.sequence < middle + 8)
        {
            let cause = match &entry.cause {
                Cause::Agent { run, sequence, body, .. } => {
                    let body: String = body.to_string().chars().take(160).collect();
                    format!("run {run} event {} {body}", sequence.map_or("-".to_owned(), |s| s.to_string()))
                }
                other => format!("{other:?}"),
            };
            let events: Vec<String> =
                entry.events.iter().map(|event| format!("{event:?}").chars().take(200).collect()).collect();
            let ignored =
                entry.ignored_reason.as_deref().map_or(String::new(), |reason| format!(" ignored: {reason}"));
            let mark = if Some(entry.sequence) == place { '>' } else { ' ' };
            let _ = writeln!(
                text,
                "{mark} {:>4} round {:>2} {} {cause}{ignored} => {}",
                entry.sequence,
                round(entry.at),
                entry.at,
                events.join(" | ")
            );
        }
        text
    }
}

fn spools(data: &Path) -> Vec<(String, Spool)> {
    processes::run_folders(data)
        .iter()
        .map(|folder| {
            let launch: Value =
                serde_json::from_slice(&std::fs::read(folder.join("launch.json")).unwrap()).unwrap();
            let request = launch.get("request").unwrap_or(&launch);
            let run = folder.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let session = request["sessionId"].as_str().unwrap().to_owned();
            let file = folder.join("spool.db");
            let entries = if file.exists() { spooled(&file) } else { Vec::new() };
            (session, Spool { run, entries })
        })
        .collect()
}

fn spooled(file: &Path) -> Vec<Spooled> {
    const SENT: u8 = 1;
    const LOST: u8 = 3;
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let there: bool = db
        .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'outgoing')", [], |row| {
            row.get(0)
        })
        .unwrap();
    if !there {
        // The sidecar was killed before it created its tables.
        return Vec::new();
    }
    let mut statement = db.prepare("SELECT sequence, state, body FROM outgoing ORDER BY sequence").unwrap();
    let rows = statement
        .query_map([], |row| Ok((row.get::<_, u64>(0)?, row.get::<_, u8>(1)?, row.get::<_, String>(2)?)))
        .unwrap();
    rows.map(|row| {
        let (sequence, state, signed) = row.unwrap();
        let signed: Value = serde_json::from_str(&signed).unwrap();
        Spooled {
            sequence,
            never_sent: state == LOST,
            sent: state == SENT,
            body: signed["envelope"]["body"].clone(),
        }
    })
    .collect()
}

fn parked(file: &Path) -> Vec<String> {
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut statement = db.prepare("SELECT pk || ' ' || sk FROM items WHERE kind = 'parked'").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}
