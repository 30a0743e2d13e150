//! A commit: everything that changes together, in one transaction, under the versions that were loaded.

use std::time::Duration;

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::pool::SessionPool;
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::{AgentSessionId, Deadlines, MessageId, RunId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::layout::{self, View};
use crate::table::{Condition, Item, Key, MAX_TRANSACTION_WRITES, TableError, Write};

/// How long an idempotency record is kept.
pub const ANSWER_KEPT: Duration = Duration::from_hours(24);
/// How long raw events, log chunks and activity are kept (ruling 38).
pub const JOURNAL_KEPT: Duration = Duration::from_hours(90 * 24);

/// Something loaded with the version that a commit is guarded by; 0: it is not in the table yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    /// What was loaded.
    pub value: T,
    /// Its version in the table.
    pub version: u64,
}

impl<T> Loaded<T> {
    /// Something that is not in the table yet.
    pub const fn new(value: T) -> Self {
        Self { value, version: 0 }
    }
}

/// A conversation as it was loaded, with what is needed to see what changed.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConversation {
    /// The conversation, to be changed. It is large, and stands in the future of every function that changes one.
    pub conversation: Box<Conversation>,
    pub(crate) session_version: u64,
    pub(crate) queue_version: u64,
    /// Where the session stands in the Due index.
    pub(crate) due_before: Option<Key>,
    pub(crate) queue_before: SessionMessageQueue,
    pub(crate) subagents_before: std::collections::BTreeMap<
        pilothouse_domain::SubAgentId,
        pilothouse_domain::session::SubAgentSession,
    >,
}

impl LoadedConversation {
    /// A conversation that is not in the table yet.
    pub fn new(conversation: Conversation) -> Self {
        Self {
            session_version: 0,
            queue_version: 0,
            due_before: None,
            queue_before: SessionMessageQueue::default(),
            subagents_before: std::collections::BTreeMap::new(),
            conversation: Box::new(conversation),
        }
    }

    /// Whether the Due index has the session at a time that has come.
    pub fn is_listed_due(&self, now: Timestamp) -> bool {
        self.due_before.as_ref().and_then(layout::due_at).is_some_and(|at| at <= now)
    }
}

/// What a write is for, to say what a failed condition means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Guard,
    Answer,
    NewMessage,
    Name,
    ClosedMessage,
    Record,
}

/// A stored answer to a request with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredAnswer {
    /// The function that answered.
    pub function: String,
    /// SHA-256 of the request that was answered: function, path and body.
    pub request_hash: String,
    /// The HTTP status.
    pub status: u16,
    /// The `ETag`, where there was one.
    pub etag: Option<String>,
    /// The body; secrets are left out of it and derived again (ruling 8).
    pub body: serde_json::Value,
}

/// What a message was sent as, to know the same one when it comes again (ruling 28).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// SHA-256 of what its sender said.
    pub hash: String,
}

/// An envelope that waits for earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedEnvelope {
    /// Its body as JSON text.
    pub body: String,
}

/// Everything that changes together.
#[derive(Debug, Default)]
pub struct Commit {
    pub(crate) writes: Vec<(Write, Purpose)>,
}

pub(crate) fn body<T: Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(StoreError::Unwritable)
}

pub(crate) fn item(key: Key, kind: &str, body: String) -> Item {
    Item { key, kind: kind.to_owned(), version: 0, listing: None, due: None, expires_at: None, body }
}

pub(crate) fn guarded(mut item: Item, loaded: u64) -> Write {
    item.version = loaded + 1;
    let condition = if loaded == 0 { Condition::Absent } else { Condition::Version(loaded) };
    Write::Put(item, condition)
}

impl Commit {
    /// An empty commit.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many writes it has.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Bytes of all its items.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|(w, _)| if let Write::Put(item, _) = w { item.size() } else { 0 }).sum()
    }

    pub(crate) fn push(&mut self, write: Write, purpose: Purpose) {
        self.writes.push((write, purpose));
    }

    /// The session, its queue if that changed, its subagents that changed, and the messages that left the queue.
    pub fn conversation(
        &mut self,
        loaded: &LoadedConversation,
        deadlines: &Deadlines,
    ) -> Result<(), StoreError> {
        let Conversation { session, queue, subagents, closed_messages } = &*loaded.conversation;
        let id = session.id();
        let mut row = item(layout::session(id), "session", body(session)?);
        row.listing = Some(layout::listing(session.owner_id(), id));
        row.due = session
            .next_due(deadlines)
            .map(|(at, _)| layout::due_place(id, at, loaded.due_before.as_ref(), session.updated_at()));
        self.push(guarded(row, loaded.session_version), Purpose::Guard);
        if *queue != loaded.queue_before {
            self.push(
                guarded(item(layout::queue(id), "queue", body(queue)?), loaded.queue_version),
                Purpose::Guard,
            );
        }
        for (subagent, state) in subagents {
            if loaded.subagents_before.get(subagent) != Some(state) {
                let row = item(layout::subagent(id, subagent), "subagent", body(state)?);
                self.push(Write::Put(row, Condition::Always), Purpose::Record);
            }
        }
        for message in closed_messages {
            let row = item(layout::message(id, message.message_id), "message", body(message)?);
            self.push(Write::Put(row, Condition::Always), Purpose::ClosedMessage);
        }
        Ok(())
    }

    /// The record of a message that is enqueued: a second one with its id is refused.
    pub fn new_message(
        &mut self,
        id: AgentSessionId,
        message: MessageId,
        sent: &SentMessage,
    ) -> Result<(), StoreError> {
        let row = item(layout::sent(id, message), "sent", body(sent)?);
        self.push(Write::Put(row, Condition::Absent), Purpose::NewMessage);
        Ok(())
    }

    /// Takes out the records of closed messages that do not fit the transaction. They are written before it: nothing is
    /// decided by them as long as the queue has the message.
    pub(crate) fn split_records(&mut self) -> Vec<Item> {
        let mut excess = self.writes.len().saturating_sub(MAX_TRANSACTION_WRITES);
        let mut early = Vec::new();
        for (write, purpose) in std::mem::take(&mut self.writes) {
            match (write, purpose) {
                (Write::Put(item, _), Purpose::ClosedMessage) if excess > 0 => {
                    excess -= 1;
                    early.push(item);
                }
                kept => self.writes.push(kept),
            }
        }
        early
    }

    /// An entry of the journal, listed in `view`.
    pub fn entry(&mut self, entry: &JournalEntry, view: Option<&View>) -> Result<(), StoreError> {
        let mut row = item(layout::journal(entry.session_id, entry.sequence), "journal", body(entry)?);
        row.listing = view.map(|view| view.place(entry.session_id, entry.sequence));
        if matches!(entry.cause, Cause::Agent { .. } | Cause::AgentApi { .. }) {
            row.expires_at = Some(entry.at + JOURNAL_KEPT);
        }
        // The session's version guards the place; the condition makes a gap or an overwrite impossible.
        self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        Ok(())
    }

    /// The pool.
    pub fn pool(&mut self, owner: &UserId, pool: &Loaded<SessionPool>) -> Result<(), StoreError> {
        let row = item(layout::pool(owner), "pool", body(&pool.value)?);
        self.push(guarded(row, pool.version), Purpose::Guard);
        Ok(())
    }

    /// The answer to a request with an idempotency key.
    pub fn answer(
        &mut self,
        owner: &UserId,
        key_hash: &str,
        answer: &StoredAnswer,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::answer(owner, key_hash), "answer", body(answer)?);
        row.expires_at = Some(now + ANSWER_KEPT);
        self.push(Write::Put(row, Condition::Absent), Purpose::Answer);
        Ok(())
    }

    /// An envelope that waits for earlier ones.
    pub fn park(
        &mut self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
        envelope: &ParkedEnvelope,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::parked(id, run, sequence), "parked", body(envelope)?);
        row.expires_at = Some(now + JOURNAL_KEPT);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }

    /// A parked envelope was applied. One that this very commit would park is not parked at all.
    pub fn unpark(&mut self, id: AgentSessionId, run: RunId, sequence: u64) {
        let key = layout::parked(id, run, sequence);
        let before = self.writes.len();
        self.writes.retain(|(write, _)| *write.key() != key);
        if self.writes.len() < before {
            return;
        }
        self.push(Write::Delete(layout::parked(id, run, sequence), Condition::Always), Purpose::Record);
    }

    /// The body of an envelope that is parked by this very commit.
    pub fn parked_body(&self, id: AgentSessionId, run: RunId, sequence: u64) -> Option<String> {
        let key = layout::parked(id, run, sequence);
        let item = self.writes.iter().find_map(|(write, _)| match write {
            Write::Put(item, _) if item.key == key => Some(item),
            _ => None,
        })?;
        serde_json::from_str::<ParkedEnvelope>(&item.body).ok().map(|envelope| envelope.body)
    }

    /// What a failed transaction means.
    pub(crate) fn explain(error: TableError, purposes: &[Purpose]) -> crate::CommitError {
        match error {
            TableError::ConditionFailed { writes } => {
                let failed = |purpose| writes.iter().any(|at| purposes.get(*at) == Some(&purpose));
                if failed(Purpose::Answer) {
                    crate::CommitError::AnswerExists
                } else if failed(Purpose::NewMessage) {
                    crate::CommitError::MessageExists
                } else if failed(Purpose::Name) {
                    crate::CommitError::NameTaken
                } else {
                    crate::CommitError::Conflict
                }
            }
            TableError::Contended => crate::CommitError::Conflict,
            other => other.into(),
        }
    }
}
