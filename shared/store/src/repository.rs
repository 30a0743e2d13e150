//! Loading and committing (S0 8.8). Repositories of S0 are the methods of [`Store`]: conversations (session and
//! queue), pools, and the append-only views of the journal.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::queue::{SessionMessage, SessionMessageQueue};
use pilothouse_domain::session::{AgentSession, SubAgentSession, SubAgentStatus};
use pilothouse_domain::{AgentSessionId, Deadlines, MessageId, RunId, SubAgentId, Timestamp, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, LoadedConversation, ParkedEnvelope, Purpose, SentMessage, StoredAnswer};
use crate::error::{CommitError, StoreError};
use crate::layout;
use crate::table::{Condition, Index, Item, Key, Page, Position, Query, SortRange, Table, TableError, Write};

/// The state of the control plane.
#[derive(Clone)]
pub struct Store {
    pub(crate) table: Arc<dyn Table>,
}

/// A page of things.
#[derive(Debug, Clone)]
pub struct Listing<T> {
    /// The things.
    pub items: Vec<T>,
    /// Where the next page starts.
    pub next: Option<Position>,
}

/// Who runs a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The worker.
    pub worker: String,
    /// Since when.
    pub since: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct Beat {
    run: RunId,
    at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct RelayPlace {
    after: u64,
}

pub(crate) fn read<T: DeserializeOwned>(item: &Item) -> Result<T, StoreError> {
    serde_json::from_str(&item.body).map_err(|source| StoreError::Unreadable {
        partition: item.key.partition.clone(),
        sort: item.key.sort.clone(),
        source,
    })
}

pub(crate) fn write<T: Serialize>(key: Key, kind: &str, value: &T) -> Result<Item, StoreError> {
    let body = serde_json::to_string(value).map_err(StoreError::Unwritable)?;
    Ok(Item { key, kind: kind.to_owned(), version: 0, listing: None, due: None, expires_at: None, body })
}

impl Store {
    /// A store over a table.
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table }
    }

    pub(crate) async fn load<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<Loaded<T>>, StoreError> {
        match self.table.get(key).await? {
            Some(item) => Ok(Some(Loaded { value: read(&item)?, version: item.version })),
            None => Ok(None),
        }
    }

    /// A session alone, for reading.
    pub async fn session(&self, id: AgentSessionId) -> Result<Option<AgentSession>, StoreError> {
        Ok(self.load(&layout::session(id)).await?.map(|loaded| loaded.value))
    }

    /// A session with its queue, to be changed. The session is read first, as whoever changes a queue writes its session
    /// too: a queue that is newer than the session then fails at the session's version. One that were older would pass,
    /// in a commit that leaves the queue alone.
    pub async fn conversation(&self, id: AgentSessionId) -> Result<Option<LoadedConversation>, StoreError> {
        let Some(row) = self.table.get(&layout::session(id)).await? else { return Ok(None) };
        let session: AgentSession = read(&row)?;
        let queue = self
            .load::<SessionMessageQueue>(&layout::queue(id))
            .await?
            .unwrap_or(Loaded::new(SessionMessageQueue::default()));
        Ok(Some(LoadedConversation {
            session_version: row.version,
            queue_version: queue.version,
            due_before: row.due,
            queue_before: queue.value.clone(),
            subagents_before: std::collections::BTreeMap::new(),
            conversation: Box::new(Conversation::new(session, queue.value)),
        }))
    }

    /// Loads a subagent into a conversation, if there is one and it is not there yet.
    pub async fn load_subagent(
        &self,
        loaded: &mut LoadedConversation,
        id: &SubAgentId,
    ) -> Result<(), StoreError> {
        if loaded.conversation.subagents.contains_key(id) {
            return Ok(());
        }
        let key = layout::subagent(loaded.conversation.session.id(), id);
        if let Some(subagent) = self.load::<SubAgentSession>(&key).await? {
            loaded.subagents_before.insert(id.clone(), subagent.value.clone());
            loaded.conversation.subagents.insert(id.clone(), subagent.value);
        }
        Ok(())
    }

    /// Loads the subagents that are still at work into a conversation: their run is over, and they end with it. At most
    /// [`Self::ENDED_AT_ONCE`], so that the commit that ends them stays possible.
    pub async fn load_running_subagents(&self, loaded: &mut LoadedConversation) -> Result<(), StoreError> {
        let id = loaded.conversation.session.id();
        let mut after = None;
        loop {
            let page = self.subagents(id, 100, after).await?;
            for subagent in page.items {
                let full = loaded.conversation.subagents.len() >= Self::ENDED_AT_ONCE;
                if subagent.status == SubAgentStatus::Running
                    && !full
                    && !loaded.conversation.subagents.contains_key(&subagent.id)
                {
                    loaded.subagents_before.insert(subagent.id.clone(), subagent.clone());
                    loaded.conversation.subagents.insert(subagent.id.clone(), subagent);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// The most subagents that end with one run's end.
    pub const ENDED_AT_ONCE: usize = 40;

    /// Every subagent of a session, page by page.
    pub async fn subagents(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<SubAgentSession>, StoreError> {
        self.list(Query {
            index: None,
            partition: layout::session_partition(id),
            range: SortRange::Prefix(layout::SUBAGENTS.to_owned()),
            descending: false,
            limit,
            after,
        })
        .await
    }

    /// What a message was sent as, once it was enqueued.
    pub async fn sent_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<Option<SentMessage>, StoreError> {
        Ok(self.load(&layout::sent(id, message)).await?.map(|loaded| loaded.value))
    }

    /// A message that left the queue. One that is still open stands there, whatever is recorded here.
    pub async fn closed_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<Option<SessionMessage>, StoreError> {
        Ok(self.load(&layout::message(id, message)).await?.map(|loaded| loaded.value))
    }

    /// The pool of an owner; a new one when there is none yet.
    pub async fn pool(&self, owner: &UserId) -> Result<Loaded<SessionPool>, StoreError> {
        Ok(self.load(&layout::pool(owner)).await?.unwrap_or_else(|| Loaded::new(SessionPool::default())))
    }

    /// The stored answer of an idempotency key.
    pub async fn answer(&self, owner: &UserId, key_hash: &str) -> Result<Option<StoredAnswer>, StoreError> {
        Ok(self.load(&layout::answer(owner, key_hash)).await?.map(|loaded| loaded.value))
    }

    /// Commits all or nothing. An owner's cancellation closes a whole queue, which can be more than one transaction
    /// takes: what of the records does not fit is written first.
    pub async fn commit(&self, mut commit: Commit) -> Result<(), CommitError> {
        let early = commit.split_records();
        if !early.is_empty() {
            self.table.put_all(early).await?;
        }
        let (writes, purposes): (Vec<Write>, Vec<Purpose>) = commit.writes.into_iter().unzip();
        self.table.transact(writes).await.map_err(|error| Commit::explain(error, &purposes))
    }

    pub(crate) async fn list<T: DeserializeOwned>(&self, query: Query) -> Result<Listing<T>, StoreError> {
        let Page { items, next } = self.table.query(&query).await?;
        Ok(Listing { items: items.iter().map(read).collect::<Result<_, _>>()?, next })
    }

    /// Sessions of an owner, newest first (S0 8.8 `ListAsync`).
    pub async fn sessions(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AgentSession>, StoreError> {
        self.sessions_between(owner, None, None, limit, after).await
    }

    /// Sessions of an owner that were created from `from` to `to`, newest first, and perhaps some that were created a
    /// little outside of that: they are found by their ids, which tell the time of whoever made them.
    pub async fn sessions_between(
        &self,
        owner: &UserId,
        from: Option<Timestamp>,
        to: Option<Timestamp>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AgentSession>, StoreError> {
        self.list(Query {
            index: Some(Index::Listing),
            partition: layout::owner_partition(owner),
            range: layout::created_between(from, to),
            descending: true,
            limit,
            after,
        })
        .await
    }

    /// Entries of a journal after `after`, in order. An entry that has expired is missing from it. Fewer than `limit`:
    /// there are no more.
    pub async fn journal(
        &self,
        id: AgentSessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let mut entries = Vec::new();
        if after >= layout::MAX_SEQUENCE {
            return Ok(entries);
        }
        let range =
            SortRange::Between(layout::journal_sort(after + 1), layout::journal_sort(layout::MAX_SEQUENCE));
        let mut query = Query {
            index: None,
            partition: layout::session_partition(id),
            range,
            descending: false,
            limit,
            after: None,
        };
        // A page also ends at its size, with room left in its limit.
        loop {
            let listing = self.list(query.clone()).await?;
            entries.extend(listing.items);
            if listing.next.is_none() || entries.len() >= limit {
                return Ok(entries);
            }
            query.limit = limit - entries.len();
            query.after = listing.next;
        }
    }

    /// One entry of a journal; none where it has expired, or never was.
    pub async fn journal_entry(
        &self,
        id: AgentSessionId,
        sequence: u64,
    ) -> Result<Option<JournalEntry>, StoreError> {
        let item = self.table.get(&layout::journal(id, sequence)).await?;
        item.map(|item| read(&item)).transpose()
    }

    fn view(partition: String, limit: usize, after: Option<Position>) -> Query {
        Query {
            index: Some(Index::Listing),
            partition,
            range: SortRange::All,
            descending: false,
            limit,
            after,
        }
    }

    /// Entries that hold messages: the parent's, or one subagent's (S0 8.8 `GetMessagesAsync`).
    pub async fn messages(
        &self,
        id: AgentSessionId,
        subagent: Option<&SubAgentId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::messages_partition(id, subagent), limit, after)).await
    }

    /// The latest entries that hold messages of the parent, latest first.
    pub async fn last_messages(
        &self,
        id: AgentSessionId,
        limit: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let query =
            Query { descending: true, ..Self::view(layout::messages_partition(id, None), limit, None) };
        Ok(self.list(query).await?.items)
    }

    /// Entries that hold tool calls, each followed by its result (S0 8.8 `GetToolCallsAsync`).
    pub async fn tool_calls(
        &self,
        id: AgentSessionId,
        subagent: Option<&SubAgentId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::tool_calls_partition(id, subagent), limit, after)).await
    }

    /// Entries that hold log chunks (S0 8.8 `GetLogChunksAsync`).
    pub async fn logs(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::logs_partition(id), limit, after)).await
    }

    /// The body of a parked envelope.
    pub async fn parked(
        &self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
    ) -> Result<Option<ParkedEnvelope>, StoreError> {
        Ok(self.load(&layout::parked(id, run, sequence)).await?.map(|loaded| loaded.value))
    }

    /// Remembers that a run was heard.
    pub async fn record_beat(&self, id: AgentSessionId, run: RunId, at: Timestamp) -> Result<(), StoreError> {
        let item = write(layout::beat(id), "beat", &Beat { run, at })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// When a run was last heard by its heartbeat.
    pub async fn last_beat(&self, id: AgentSessionId, run: RunId) -> Result<Option<Timestamp>, StoreError> {
        let beat = self.load::<Beat>(&layout::beat(id)).await?;
        Ok(beat.filter(|beat| beat.value.run == run).map(|beat| beat.value.at))
    }

    /// Sessions of which something is due by `at`, a few of each shard. The index may lag: load and decide.
    pub async fn due(&self, at: Timestamp, limit: usize) -> Result<Vec<AgentSessionId>, StoreError> {
        Ok(self.due_times(at, limit).await?.into_iter().map(|(id, _)| id).collect())
    }

    /// The same, up to `limit` of each shard, with when the index has them as due.
    pub async fn due_times(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<(AgentSessionId, Timestamp)>, StoreError> {
        let mut found = Vec::new();
        for shard in 0..layout::DUE_SHARDS {
            let mut query = Query {
                index: Some(Index::Due),
                partition: layout::due_partition(shard),
                range: SortRange::Between(String::new(), layout::due_until(at)),
                descending: false,
                limit,
                after: None,
            };
            let until = found.len() + limit;
            // A page also ends at its size.
            while found.len() < until {
                let page = self.table.query(&query).await?;
                found.extend(page.items.iter().filter_map(|item| {
                    layout::session_of(&item.key).zip(item.due.as_ref().and_then(layout::due_at))
                }));
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Moves a session on to its next deadline in the Due index, where it stood for an earlier one that was put off.
    pub async fn put_off(
        &self,
        mut loaded: LoadedConversation,
        deadlines: &Deadlines,
    ) -> Result<(), CommitError> {
        loaded.due_before = None;
        let mut commit = Commit::new();
        commit.conversation(&loaded, deadlines)?;
        self.commit(commit).await
    }

    /// Claims a run for a worker (ruling 7). Returns who has it.
    pub async fn claim_run(
        &self,
        id: AgentSessionId,
        run: RunId,
        claim: &Claim,
    ) -> Result<Claim, StoreError> {
        let key = layout::claim(id, run);
        let item = write(key.clone(), "claim", claim)?;
        match self.table.transact(vec![Write::Put(item, Condition::Absent)]).await {
            Ok(()) => Ok(claim.clone()),
            Err(TableError::ConditionFailed { .. }) => {
                Ok(self.load::<Claim>(&key).await?.map_or_else(|| claim.clone(), |loaded| loaded.value))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// How far the relay is in the feed of journal entries.
    pub async fn relay_place(&self) -> Result<u64, StoreError> {
        Ok(self.load::<RelayPlace>(&layout::relay()).await?.map_or(0, |place| place.value.after))
    }

    /// Moves the relay on.
    pub async fn move_relay(&self, after: u64) -> Result<(), StoreError> {
        let item = write(layout::relay(), "place", &RelayPlace { after })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// Reads an entry of the feed.
    pub fn read_entry(item: &Item) -> Result<JournalEntry, StoreError> {
        read(item)
    }

    /// How long to wait before the `attempt`th new try of a lost race; `jitter` is 0 to 1.
    pub fn backoff(attempt: u32, jitter: f64) -> Duration {
        let most = 1u64 << attempt.min(7);
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        // at most 128 ms
        let micros = (most as f64 * 1000.0 * jitter.clamp(0.0, 1.0)) as u64;
        Duration::from_micros(micros)
    }
}
