//! Commits: changes that are written together in one transaction, guarded by the versions that were loaded.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::conversation::Conversation;
use pilothouse_domain::journal::{Cause, JournalEntry};
use pilothouse_domain::queue::SessionMessageQueue;
use pilothouse_domain::{AgentSessionId, Deadlines, MessageId, RunId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::layout::{self, JournalView};
use crate::retention::Retention;
use crate::table::{Condition, Item, Key, MAX_TRANSACTION_WRITES, ParsedBody, TableError, Write};

pub const RESPONSE_RETENTION: Duration = Duration::from_hours(24);

/// A loaded value with the version that guards its commit; 0 if it is not in the table yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded<T> {
    pub value: T,
    pub version: u64,
}

impl<T> Loaded<T> {
    pub const fn new(value: T) -> Self {
        Self { value, version: 0 }
    }
}

/// A loaded conversation with its previous state, from which the commit finds its changes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedConversation {
    /// The conversation, to be changed. Boxed, because it is large and part of the future of every function that changes one.
    pub conversation: Box<Conversation>,
    pub(crate) session_version: u64,
    pub(crate) queue_version: u64,
    /// Current place of the session in the Due index.
    pub(crate) due_before: Option<Key>,
    pub(crate) queue_before: SessionMessageQueue,
    pub(crate) subagents_before: std::collections::BTreeMap<
        pilothouse_domain::SubAgentId,
        pilothouse_domain::session::SubAgentSession,
    >,
}

impl LoadedConversation {
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

    /// Whether the Due index lists the session as due at `now`.
    pub fn is_listed_due(&self, now: Timestamp) -> bool {
        self.due_before.as_ref().and_then(layout::due_at).is_some_and(|at| at <= now)
    }
}

/// Purpose of a write, which determines what a failed condition means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Guard,
    StoredResponse,
    NewMessage,
    Name,
    ClosedMessage,
    Record,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredResponse {
    pub function: String,
    /// SHA-256 of the request: function, path and body.
    pub request_hash: String,
    pub status: u16,
    pub etag: Option<String>,
    /// Body without secrets, which are derived again (decision 8).
    pub body: serde_json::Value,
}

/// Hash of a sent message, to recognise the same message when it is sent again (decision 28).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentMessage {
    /// SHA-256 of the request to send it.
    pub hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParkedEnvelope {
    pub body: String,
    /// When the event happened. Absent in envelopes that earlier versions parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub struct Commit {
    pub(crate) writes: Vec<(Write, Purpose)>,
    /// Keys of items whose `expires_at` is the time from which on they are kept. The store adds its [`Retention`].
    retained: Vec<Key>,
    /// The values of some bodies.
    values: Vec<(Key, ParsedBody)>,
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
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of items that are written, deleted or checked.
    pub fn writes(&self) -> usize {
        self.writes.len()
    }

    /// Size of all items in bytes.
    pub fn bytes(&self) -> usize {
        self.writes.iter().map(|(w, _)| if let Write::Put(item, _) = w { item.size() } else { 0 }).sum()
    }

    /// Keeps an item for the store's [`Retention`] from `since` on.
    pub(crate) fn retain(&mut self, row: &mut Item, since: Timestamp) {
        row.expires_at = Some(since);
        self.retained.push(row.key.clone());
    }

    /// The writes, with the times at which their items expire.
    pub(crate) fn into_writes(self, retention: Retention) -> (Vec<Write>, Vec<Purpose>) {
        let Self { writes, retained, values: _ } = self;
        let (mut writes, purposes): (Vec<Write>, Vec<Purpose>) = writes.into_iter().unzip();
        for write in &mut writes {
            if let Write::Put(item, _) = write
                && retained.contains(&item.key)
            {
                item.expires_at = item.expires_at.map(|since| since + retention.duration());
            }
        }
        (writes, purposes)
    }

    pub(crate) fn take_values(&mut self) -> Vec<(Key, ParsedBody)> {
        std::mem::take(&mut self.values)
    }

    pub(crate) fn push(&mut self, write: Write, purpose: Purpose) {
        self.writes.push((write, purpose));
    }

    /// Adds the session, its queue if it changed, its changed subagents, the decisions that it opened or ended, and the messages
    /// that left the queue.
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
            .next_deadline(deadlines)
            .map(|(at, _)| layout::due_place(id, at, loaded.due_before.as_ref(), session.updated_at()));
        self.push(guarded(row, loaded.session_version), Purpose::Guard);
        if *queue != loaded.queue_before {
            let row = item(layout::queue(id), "queue", body(queue)?);
            // A queue can have many messages, and the next command on the session reads them.
            debug_assert!(
                serde_json::from_str(&row.body).is_ok_and(|read: SessionMessageQueue| read == *queue),
                "a queue is read back with a difference"
            );
            self.values.push((row.key.clone(), Arc::new(queue.clone())));
            self.push(guarded(row, loaded.queue_version), Purpose::Guard);
        }
        for (subagent, state) in subagents {
            if loaded.subagents_before.get(subagent) != Some(state) {
                let row = item(layout::subagent(id, subagent), "subagent", body(state)?);
                self.push(Write::Put(row, Condition::Always), Purpose::Record);
            }
        }
        for decision in session.changed_decisions() {
            self.decision(decision)?;
        }
        for message in closed_messages {
            let row = item(layout::message(id, message.message_id), "message", body(message)?);
            self.push(Write::Put(row, Condition::Always), Purpose::ClosedMessage);
        }
        Ok(())
    }

    /// Adds the record of a new message. The commit fails if the id was used before.
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

    /// Removes records of closed messages that exceed the size of a transaction, to write them first. They affect nothing while the
    /// queue still has the message.
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

    /// Adds a journal entry, listed in `view`.
    pub fn entry(&mut self, entry: &JournalEntry, view: Option<&JournalView>) -> Result<(), StoreError> {
        let mut row = item(layout::journal(entry.session_id, entry.sequence), "journal", body(entry)?);
        row.listing = view.map(|view| view.place(entry.session_id, entry.sequence));
        if matches!(entry.cause, Cause::Agent { .. } | Cause::AgentApi { .. }) {
            self.retain(&mut row, entry.at);
        }
        // The session's version guards the sequence. This condition additionally rules out overwriting an entry.
        self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        Ok(())
    }

    pub fn store_response(
        &mut self,
        owner: &UserId,
        key_hash: &str,
        response: &StoredResponse,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::stored_response(owner, key_hash), "response", body(response)?);
        row.expires_at = Some(now + RESPONSE_RETENTION);
        self.push(Write::Put(row, Condition::Absent), Purpose::StoredResponse);
        Ok(())
    }

    /// Marks a refusal as recorded, so that a repeated request does not record it again. `hash` identifies the refusal.
    pub fn recorded_refusal(&mut self, owner: &UserId, hash: &str, now: Timestamp) -> Result<(), StoreError> {
        let mut row = item(layout::recorded_refusal(owner, hash), "refusal", body(&())?);
        row.expires_at = Some(now + RESPONSE_RETENTION);
        self.push(Write::Put(row, Condition::Absent), Purpose::StoredResponse);
        Ok(())
    }

    pub fn park(
        &mut self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
        envelope: &ParkedEnvelope,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::parked(id, run, sequence), "parked", body(envelope)?);
        self.retain(&mut row, now);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }

    /// Removes a parked envelope that was applied. If this commit would park it, removes that write instead.
    pub fn unpark(&mut self, id: AgentSessionId, run: RunId, sequence: u64) {
        let key = layout::parked(id, run, sequence);
        let before = self.writes.len();
        self.writes.retain(|(write, _)| *write.key() != key);
        if self.writes.len() < before {
            return;
        }
        self.push(Write::Delete(layout::parked(id, run, sequence), Condition::Always), Purpose::Record);
    }

    pub fn parked(&self, id: AgentSessionId, run: RunId, sequence: u64) -> Option<ParkedEnvelope> {
        let key = layout::parked(id, run, sequence);
        let item = self.writes.iter().find_map(|(write, _)| match write {
            Write::Put(item, _) if item.key == key => Some(item),
            _ => None,
        })?;
        serde_json::from_str(&item.body).ok()
    }

    pub(crate) fn explain(error: TableError, purposes: &[Purpose]) -> crate::CommitError {
        match error {
            TableError::ConditionFailed { writes } => {
                let failed = |purpose| writes.iter().any(|at| purposes.get(*at) == Some(&purpose));
                if failed(Purpose::StoredResponse) {
                    crate::CommitError::ResponseExists
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
