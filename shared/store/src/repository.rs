//! Loading and committing (S0 8.8). The repositories of S0 are methods of [`Store`]: conversations (session and queue), pools, and
//! the views of the journal.

use std::sync::Arc;

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::queue::{SessionMessage, SessionMessageQueue};
use pilothouse_domain::session::{AgentSession, SubAgentSession, SubAgentStatus};
use pilothouse_domain::{
    AgentSessionId, Aggregate, Deadlines, MessageId, RunId, SubAgentId, Timestamp, UserId,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, LoadedConversation, ParkedEnvelope, SentMessage, StoredResponse};
use crate::error::{CommitError, StoreError};
use crate::layout;
use crate::retention::Retention;
use crate::table::{
    Condition, Index, Item, Key, Page, Position, Query, SharedItem, SortRange, Table, TableError, Turn, Write,
};

#[derive(Clone)]
pub struct Store {
    pub(crate) table: Arc<dyn Table>,
    retention: Retention,
}

#[derive(Debug, Clone)]
pub struct Listing<T> {
    pub items: Vec<T>,
    pub next: Option<Position>,
}

/// A part of a journal, latest first.
#[derive(Debug, Clone, Default)]
pub struct JournalPage {
    /// Without those that have expired.
    pub entries: Vec<JournalEntry>,
    /// The sequence of the last entry that was read, which may have expired; `None` at the begin of the journal.
    pub read_to: Option<u64>,
}

/// A worker's claim of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub worker: String,
    pub since: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct RunHeartbeat {
    run: RunId,
    at: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct RelayPosition {
    after: u64,
}

pub(crate) fn read<T: DeserializeOwned>(item: &Item) -> Result<T, StoreError> {
    serde_json::from_str(&item.body).map_err(|source| unreadable(item, source))
}

fn unreadable(item: &Item, source: serde_json::Error) -> StoreError {
    StoreError::Unreadable { partition: item.key.partition.clone(), sort: item.key.sort.clone(), source }
}

/// Like [`read`]. If the engine keeps the item, its body is parsed only once.
pub(crate) fn read_shared<T>(item: Arc<SharedItem>) -> Result<T, StoreError>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let value = item.parsed::<T>().map_err(|source| unreadable(item.item(), source))?;
    // An item that the engine does not keep was the only other owner of the value.
    drop(item);
    Ok(Arc::unwrap_or_clone(value))
}

pub(crate) fn write<T: Serialize>(key: Key, kind: &str, value: &T) -> Result<Item, StoreError> {
    let body = serde_json::to_string(value).map_err(StoreError::Unwritable)?;
    Ok(Item { key, kind: kind.to_owned(), version: 0, listing: None, due: None, expires_at: None, body })
}

impl Store {
    pub fn new(table: Arc<dyn Table>) -> Self {
        Self { table, retention: Retention::default() }
    }

    #[must_use]
    pub const fn with_retention(mut self, retention: Retention) -> Self {
        self.retention = retention;
        self
    }

    pub const fn retention(&self) -> Retention {
        self.retention
    }

    pub(crate) async fn load<T: DeserializeOwned>(&self, key: &Key) -> Result<Option<Loaded<T>>, StoreError> {
        match self.table.get(key).await? {
            Some(item) => Ok(Some(Loaded { value: read(&item)?, version: item.version })),
            None => Ok(None),
        }
    }

    /// Like [`Self::load`], for items that engines keep in memory.
    pub(crate) async fn load_shared<T>(&self, key: &Key) -> Result<Option<Loaded<T>>, StoreError>
    where
        T: DeserializeOwned + Clone + Send + Sync + 'static,
    {
        match self.table.get_shared(key).await? {
            Some(item) => {
                let version = item.item().version;
                Ok(Some(Loaded { value: read_shared(item)?, version }))
            }
            None => Ok(None),
        }
    }

    /// A session, for reading. It is not copied if the engine keeps it in memory.
    pub async fn shared_session(&self, id: AgentSessionId) -> Result<Option<Arc<AgentSession>>, StoreError> {
        let Some(item) = self.table.get_shared(&layout::session(id)).await? else { return Ok(None) };
        item.parsed().map(Some).map_err(|source| unreadable(item.item(), source))
    }

    pub async fn session(&self, id: AgentSessionId) -> Result<Option<AgentSession>, StoreError> {
        Ok(self.load_shared(&layout::session(id)).await?.map(|loaded| loaded.value))
    }

    /// A session of `owner`, for reading. Another owner's session costs the same read as a missing one and is not parsed, so that
    /// neither the response nor its time reveals that it exists.
    pub async fn session_of(
        &self,
        owner: &UserId,
        id: AgentSessionId,
    ) -> Result<Option<AgentSession>, StoreError> {
        let row = self.listed_item(layout::session(id), &layout::owner_partition(owner)).await?;
        let session: Option<AgentSession> = row.map(read_shared).transpose()?;
        Ok(session.filter(|session| session.owner_id() == owner))
    }

    /// The item at `key` if it is listed in `partition` of [`Index::Listing`], without parsing its body.
    pub(crate) async fn listed_item(
        &self,
        key: Key,
        partition: &str,
    ) -> Result<Option<Arc<SharedItem>>, StoreError> {
        let row = self.table.get_shared(&key).await?;
        let is_listed =
            |row: &Item| row.listing.as_ref().is_some_and(|listing| listing.partition == partition);
        Ok(row.filter(|row| is_listed(row.item())))
    }

    /// A session of `owner` with its queue, for changing. Another owner's session costs the same read as a missing one.
    pub async fn conversation_of(
        &self,
        owner: &UserId,
        id: AgentSessionId,
    ) -> Result<Option<LoadedConversation>, StoreError> {
        match self.listed_item(layout::session(id), &layout::owner_partition(owner)).await? {
            Some(row) => self.with_queue(row, |session| session.owner_id() == owner).await,
            None => Ok(None),
        }
    }

    /// A session with its queue, for changing, if `admits` accepts it. The queue is read only then.
    pub async fn conversation_if(
        &self,
        id: AgentSessionId,
        admits: impl FnOnce(&AgentSession) -> bool + Send,
    ) -> Result<Option<LoadedConversation>, StoreError> {
        match self.table.get_shared(&layout::session(id)).await? {
            Some(row) => self.with_queue(row, admits).await,
            None => Ok(None),
        }
    }

    /// A session with its queue, for changing. The session is read first. A change of the queue always writes the session too, so a
    /// queue that is newer than the loaded session makes the commit fail at the session's version. A queue older than the session
    /// would go unnoticed in a commit that does not write the queue.
    pub async fn conversation(&self, id: AgentSessionId) -> Result<Option<LoadedConversation>, StoreError> {
        self.conversation_if(id, |_| true).await
    }

    async fn with_queue(
        &self,
        row: Arc<SharedItem>,
        admits: impl FnOnce(&AgentSession) -> bool + Send,
    ) -> Result<Option<LoadedConversation>, StoreError> {
        let (session_version, due_before) = (row.item().version, row.item().due.clone());
        let session: AgentSession = read_shared(row)?;
        if !admits(&session) {
            return Ok(None);
        }
        let id = session.id();
        let queue = self
            .load_shared::<SessionMessageQueue>(&layout::queue(id))
            .await?
            .unwrap_or(Loaded::new(SessionMessageQueue::default()));
        Ok(Some(LoadedConversation {
            session_version,
            queue_version: queue.version,
            due_before,
            queue_before: queue.value.clone(),
            subagents_before: std::collections::BTreeMap::new(),
            conversation: Box::new(Conversation::new(session, queue.value)),
        }))
    }

    /// Loads a subagent into a conversation, if it exists and is not loaded yet.
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

    /// Loads the running subagents into a conversation whose run has ended, so that they end with it. Loads at most
    /// [`Self::MAX_ENDED_SUBAGENTS`], to keep the commit within its limits.
    pub async fn load_running_subagents(&self, loaded: &mut LoadedConversation) -> Result<(), StoreError> {
        let id = loaded.conversation.session.id();
        let mut after = None;
        loop {
            let page = self.subagents(id, 100, after).await?;
            for subagent in page.items {
                let full = loaded.conversation.subagents.len() >= Self::MAX_ENDED_SUBAGENTS;
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

    /// Most subagents that end with their run.
    pub const MAX_ENDED_SUBAGENTS: usize = 40;

    pub async fn subagents(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<SubAgentSession>, StoreError> {
        self.list(Query {
            after,
            ..Query::new(
                layout::session_partition(id),
                SortRange::Prefix(layout::SUBAGENTS.to_owned()),
                limit,
            )
        })
        .await
    }

    /// Hash of a sent message, once it was enqueued.
    pub async fn sent_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<Option<SentMessage>, StoreError> {
        Ok(self.load(&layout::sent(id, message)).await?.map(|loaded| loaded.value))
    }

    /// Ignore the record if the queue still has the message.
    pub async fn closed_message(
        &self,
        id: AgentSessionId,
        message: MessageId,
    ) -> Result<Option<SessionMessage>, StoreError> {
        Ok(self.load(&layout::message(id, message)).await?.map(|loaded| loaded.value))
    }

    pub async fn stored_response(
        &self,
        owner: &UserId,
        key_hash: &str,
    ) -> Result<Option<StoredResponse>, StoreError> {
        Ok(self.load(&layout::stored_response(owner, key_hash)).await?.map(|loaded| loaded.value))
    }

    /// Whether a refusal is marked by [`Commit::recorded_refusal`].
    pub async fn is_refusal_recorded(&self, owner: &UserId, hash: &str) -> Result<bool, StoreError> {
        Ok(self.load::<()>(&layout::recorded_refusal(owner, hash)).await?.is_some())
    }

    /// Commits all or nothing. Cancelling a session closes its whole queue, which may exceed a transaction. Message records that do
    /// not fit are written first.
    pub async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        self.attempt(commit).await.map_err(|(error, _)| error)
    }

    /// Like [`Self::commit`]. After a lost race it waits for the turn of the caller, if the engine has turns. Keep the turn for the next
    /// attempt.
    pub async fn commit_in_turn(&self, commit: Commit, turn: &mut Option<Turn>) -> Result<(), CommitError> {
        let Err((error, changed)) = self.attempt(commit).await else { return Ok(()) };
        if matches!(error, CommitError::Conflict | CommitError::ResponseExists)
            && let Some(key) = changed
            && turn.as_ref().is_none_or(|turn| *turn.key() != key)
        {
            // Nobody waits for a turn while it has another one.
            *turn = None;
            *turn = self.table.turn(&key).await;
        }
        Err(error)
    }

    /// After a lost race the error contains an item that was changed.
    async fn attempt(&self, mut commit: Commit) -> Result<(), (CommitError, Option<Key>)> {
        let early = commit.split_records();
        if !early.is_empty() {
            self.table.put_all(early).await.map_err(|error| (error.into(), None))?;
        }
        let values = commit.take_values();
        let (writes, purposes) = commit.into_writes(self.retention);
        if writes.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = writes.iter().map(|write| write.key().clone()).collect();
        let written = self.table.transact_with_values(writes, values).await;
        written.map_err(|error| {
            let failed = match &error {
                TableError::ConditionFailed { writes } => writes.first().copied(),
                _ => None,
            };
            let changed = failed.and_then(|at| keys.into_iter().nth(at));
            (Commit::explain(error, &purposes), changed)
        })
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

    /// Sessions of an owner that were created between `from` and `to`, newest first. They are found by the time in their ids, so
    /// the result may include some that were created slightly outside the range.
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

    /// Journal entries after `after`, in order. Expired entries are missing. A result shorter than `limit` means that there are no
    /// more.
    pub async fn journal(
        &self,
        id: AgentSessionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        self.entries_after(layout::session_partition(id), after, limit).await
    }

    /// The journal entries in a partition after the entry `after`.
    pub(crate) async fn entries_after<E: DeserializeOwned>(
        &self,
        partition: String,
        after: u64,
        limit: usize,
    ) -> Result<Vec<E>, StoreError> {
        if after >= layout::MAX_SEQUENCE {
            return Ok(Vec::new());
        }
        let range =
            SortRange::Between(layout::journal_sort(after + 1), layout::journal_sort(layout::MAX_SEQUENCE));
        self.list_up_to(Query::new(partition, range, limit)).await
    }

    /// Journal entries before `before`, latest first. Reads at most `limit` entries, and a page of the table, including entries that
    /// have expired and are not deleted yet.
    pub async fn journal_page_before(
        &self,
        id: AgentSessionId,
        before: u64,
        limit: usize,
    ) -> Result<JournalPage, StoreError> {
        let last = before.saturating_sub(1).min(layout::MAX_SEQUENCE);
        if last == 0 {
            return Ok(JournalPage::default());
        }
        let range = SortRange::Between(layout::journal_sort(1), layout::journal_sort(last));
        let query = Query::new(layout::session_partition(id), range, limit);
        let Listing { items: entries, next } = self.list(Query { descending: true, ..query }).await?;
        let read_to = next.and_then(|position| layout::journal_sequence(&position.sort));
        Ok(JournalPage { entries, read_to })
    }

    /// Lists items until the limit of the query is reached, because a page may end at its size before.
    async fn list_up_to<T: DeserializeOwned>(&self, mut query: Query) -> Result<Vec<T>, StoreError> {
        let (mut items, limit) = (Vec::new(), query.limit);
        loop {
            let listing = self.list(query.clone()).await?;
            items.extend(listing.items);
            if listing.next.is_none() || items.len() >= limit {
                return Ok(items);
            }
            query.limit = limit - items.len();
            query.after = listing.next;
        }
    }

    /// One journal entry; `None` if it expired or does not exist.
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

    /// Entries with messages of the main agent or one subagent (S0 8.8 `GetMessagesAsync`).
    pub async fn messages(
        &self,
        id: AgentSessionId,
        subagent: Option<&SubAgentId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::messages_partition(id, subagent), limit, after)).await
    }

    /// Latest entries with messages of the main agent, latest first.
    pub async fn last_messages(
        &self,
        id: AgentSessionId,
        limit: usize,
    ) -> Result<Vec<JournalEntry>, StoreError> {
        let query =
            Query { descending: true, ..Self::view(layout::messages_partition(id, None), limit, None) };
        Ok(self.list(query).await?.items)
    }

    /// Entries with tool calls, each followed by its result (S0 8.8 `GetToolCallsAsync`).
    pub async fn tool_calls(
        &self,
        id: AgentSessionId,
        subagent: Option<&SubAgentId>,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::tool_calls_partition(id, subagent), limit, after)).await
    }

    /// S0 8.8 `GetLogChunksAsync`.
    pub async fn logs(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<JournalEntry>, StoreError> {
        self.list(Self::view(layout::logs_partition(id), limit, after)).await
    }

    pub async fn parked(
        &self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
    ) -> Result<Option<ParkedEnvelope>, StoreError> {
        Ok(self.load(&layout::parked(id, run, sequence)).await?.map(|loaded| loaded.value))
    }

    pub async fn record_heartbeat(
        &self,
        id: AgentSessionId,
        run: RunId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let item = write(layout::heartbeat(id), "beat", &RunHeartbeat { run, at })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    pub async fn last_heartbeat(
        &self,
        id: AgentSessionId,
        run: RunId,
    ) -> Result<Option<Timestamp>, StoreError> {
        let heartbeat = self.load::<RunHeartbeat>(&layout::heartbeat(id)).await?;
        Ok(heartbeat.filter(|heartbeat| heartbeat.value.run == run).map(|heartbeat| heartbeat.value.at))
    }

    /// Sessions that are due by `at`, up to `limit` from each shard. The index may lag: load them before deciding.
    pub async fn due(&self, at: Timestamp, limit: usize) -> Result<Vec<AgentSessionId>, StoreError> {
        Ok(self.due_times(at, limit).await?.into_iter().map(|(id, _)| id).collect())
    }

    /// Like [`Self::due`], with the due times of the index.
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
            // A page may end at its size.
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

    /// Moves a session in the Due index from a postponed deadline to its next one.
    pub async fn postpone_deadline(
        &self,
        mut loaded: LoadedConversation,
        deadlines: &Deadlines,
    ) -> Result<(), CommitError> {
        loaded.due_before = None;
        let mut commit = Commit::new();
        commit.conversation(&loaded, deadlines)?;
        self.commit(commit).await
    }

    /// Claims a run for a worker (decision 7). Returns the claim that holds.
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

    /// Position of the relay in the feed of journal entries.
    pub async fn relay_position(&self) -> Result<u64, StoreError> {
        Ok(self.load::<RelayPosition>(&layout::relay()).await?.map_or(0, |place| place.value.after))
    }

    pub async fn set_relay_position(&self, after: u64) -> Result<(), StoreError> {
        let item = write(layout::relay(), "place", &RelayPosition { after })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// Parses the item of an aggregate.
    pub fn read_item<A: Aggregate>(item: &Item) -> Result<A, StoreError> {
        read(item)
    }

    /// Parses an entry of the feed.
    pub fn read_entry(item: &Item) -> Result<JournalEntry, StoreError> {
        read(item)
    }
}
