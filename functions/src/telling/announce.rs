//! Takes journal entries that tell something, and tells it.

use pilothouse_broker::{MAX_BATCH, Outgoing, QueueError, Received};
use pilothouse_domain::announcement::{Telling, owned_tells, tells};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSessionId, EventId, OwnedEntry, UserId};
use pilothouse_store::owned::OwnedRef;
use pilothouse_store::{Commit, CommitError, Store, Told};
use pilothouse_wire::keys::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::edge::Problem;
use crate::queues::{self, Settlement, Worked};
use crate::webhooks::deliver;

/// How often a lost race is run again. The queue's groups keep an owner's entries apart, so there is hardly one.
const TRIES: u32 = 60;

/// Names an entry on the queue of announcements.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    #[serde(flatten)]
    journal: Journal,
    sequence: u64,
}

/// Whose journal it stands in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Journal {
    SessionId(AgentSessionId),
    Aggregate(OwnedRef),
}

/// An entry that tells something.
struct Entry {
    id: EventId,
    owner: UserId,
    tellings: Vec<Telling>,
}

/// The message for an entry of a session's journal that tells something.
pub fn message(entry: &JournalEntry) -> Option<Outgoing> {
    let pointer = Pointer { journal: Journal::SessionId(entry.session_id), sequence: entry.sequence };
    if tells(entry) { about(&entry.owner_id, entry.id, &pointer) } else { None }
}

/// The message for an entry of another aggregate's journal that tells something.
pub fn message_of_owned(entry: &OwnedEntry) -> Option<Outgoing> {
    let aggregate = OwnedRef { kind: entry.kind.clone(), id: entry.aggregate_id.clone() };
    let pointer = Pointer { journal: Journal::Aggregate(aggregate), sequence: entry.sequence };
    if owned_tells(entry) { about(&entry.owner_id, entry.id, &pointer) } else { None }
}

fn about(owner: &UserId, id: EventId, pointer: &Pointer) -> Option<Outgoing> {
    let body = serde_json::to_string(pointer).ok()?;
    Some(Outgoing::new(group_of(owner), id.to_string(), body))
}

/// A digest: owners may be called what no group can.
fn group_of(owner: &UserId) -> String {
    sha256_hex(owner.as_str().as_bytes())
}

/// Takes one batch of the queue of announcements and settles it.
pub async fn handle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let settlement = process(app, batch).await;
    queues::settle(app.broker.as_ref(), &queues::announcements(), settlement).await
}

/// Takes one batch and leaves it to the caller to settle it.
pub async fn process(app: &App, batch: Vec<Received>) -> Settlement {
    queues::work_off(app, &queues::announcements(), batch, |app, message| async move {
        announce(&app, &message.body).await.map(|()| Worked::Done)
    })
    .await
}

async fn announce(app: &App, body: &str) -> Result<(), Problem> {
    let pointer: Pointer = serde_json::from_str(body).map_err(Problem::internal)?;
    let Entry { id, owner, tellings } = entry_of(app, &pointer)
        .await?
        .ok_or_else(|| Problem::internal(format!("the entry of {pointer:?} is missing")))?;
    let told = append(app, &owner, id, &tellings).await?;
    hand_out(app, &owner, told).await
}

async fn entry_of(app: &App, pointer: &Pointer) -> Result<Option<Entry>, Problem> {
    let sequence = pointer.sequence;
    Ok(match &pointer.journal {
        Journal::SessionId(session) => {
            let entries = app.store.journal(*session, sequence.saturating_sub(1), 1).await?;
            let entry = entries.into_iter().find(|entry| entry.sequence == sequence);
            entry.map(|entry| Entry { id: entry.id, tellings: Telling::of(&entry), owner: entry.owner_id })
        }
        Journal::Aggregate(aggregate) => {
            let entry = app.store.owned_entry(aggregate, sequence).await?;
            entry.map(|entry| Entry {
                id: entry.id,
                tellings: Telling::of_owned(&entry),
                owner: entry.owner_id,
            })
        }
    })
}

/// Appends what an entry tells to the feed of its owner, unless that was done.
async fn append(app: &App, owner: &UserId, entry: EventId, tellings: &[Telling]) -> Result<Told, Problem> {
    for attempt in 0..TRIES {
        if let Some(told) = app.store.told(owner, entry).await? {
            return Ok(told);
        }
        let head = app.store.feed(owner).await?;
        let mut commit = Commit::new();
        let told = commit.tell(owner, &head, tellings)?;
        commit.told(owner, entry, told, app.now())?;
        match app.store.commit(commit).await {
            Ok(()) => return Ok(told),
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}

/// A message for each endpoint and each announcement that it wants, and one a number for the bus, where there is one. None
/// of them waits for another, and no entry waits for any of them.
async fn hand_out(app: &App, owner: &UserId, told: Told) -> Result<(), Problem> {
    let webhooks = app.store.webhooks(owner).await?;
    let mut messages = Vec::new();
    for sequence in told.numbers() {
        if app.outside.has_bus {
            messages.push(deliver::message(owner, None, sequence)?);
        }
        if webhooks.is_empty() {
            continue;
        }
        let Some(announcement) = app.store.announcement(owner, sequence).await? else { continue };
        for webhook in webhooks.iter().filter(|webhook| webhook.wants(&announcement.event)) {
            messages.push(deliver::message(owner, Some(webhook.id), sequence)?);
        }
    }
    for batch in messages.chunks(MAX_BATCH) {
        let outcome =
            app.broker.send(&queues::webhooks(), batch.to_vec()).await.map_err(Problem::internal)?;
        if let Some((_, error)) = outcome.failed.into_iter().next() {
            return Err(Problem::internal(error));
        }
    }
    Ok(())
}
