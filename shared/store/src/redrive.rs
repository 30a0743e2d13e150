//! Events that were set aside, and the record of redrives (ruling 9).
//!
//! The sequence of an event that is set aside counts as consumed. Its record says that its event is still owed; who
//! applies it removes the record in the same commit, so it is applied once, however often it is sent.

use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, JOURNAL_KEPT, Purpose};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, read};
use crate::table::{Condition, Item, Key, Query, SortRange, Write};

/// The partition of what operators did.
const OPERATIONS: &str = "OPERATIONS";
/// What the sort keys of redrives begin with.
const REDRIVES: &str = "REDRIVE#";
/// The version of a record that is never changed.
const ONLY: u64 = 1;

/// An event that could not be applied in its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetAside {
    /// Why.
    pub cause: String,
}

/// Dead letters that were sent again, and what that cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redrive {
    /// Names it: a `UUIDv7`.
    pub id: String,
    /// When it ended.
    pub at: Timestamp,
    /// Who asked for it.
    pub by: UserId,
    /// The queue.
    pub queue: String,
    /// Letters that were sent again.
    pub letters: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Requests to the broker, as SQS bills them: a message counts as one for each 64 KiB that it begins.
    pub requests: u64,
}

fn record(key: Key, kind: &str, body: String, now: Timestamp) -> Item {
    let expires_at = Some(now + JOURNAL_KEPT);
    Item { key, kind: kind.to_owned(), version: ONLY, listing: None, due: None, expires_at, body }
}

impl Commit {
    /// The event of a sequence is set aside: it is owed until [`Self::applied_late`].
    pub fn set_aside(
        &mut self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
        aside: &SetAside,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_string(aside).map_err(StoreError::Unwritable)?;
        let row = record(layout::set_aside(id, run, sequence), "set-aside", body, now);
        self.writes.push((Write::Put(row, Condition::Always), Purpose::Record));
        Ok(())
    }

    /// An event that was set aside is applied by this commit. The commit conflicts if another was first.
    pub fn applied_late(&mut self, id: AgentSessionId, run: RunId, sequence: u64) {
        let key = layout::set_aside(id, run, sequence);
        self.writes.push((Write::Delete(key, Condition::Version(ONLY)), Purpose::Guard));
    }
}

impl Commit {
    /// Whether this very commit applies the event of a sequence that was set aside.
    pub fn applies_late(&self, id: AgentSessionId, run: RunId, sequence: u64) -> bool {
        let key = layout::set_aside(id, run, sequence);
        self.writes.iter().any(|(write, _)| matches!(write, Write::Delete(at, _) if *at == key))
    }
}

impl Store {
    /// Whether the event of a sequence was set aside and not applied since.
    pub async fn is_set_aside(
        &self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
    ) -> Result<bool, StoreError> {
        Ok(self.table.get(&layout::set_aside(id, run, sequence)).await?.is_some())
    }

    /// Records a redrive.
    pub async fn record_redrive(&self, redrive: &Redrive) -> Result<(), StoreError> {
        let key = Key::new(OPERATIONS, format!("{REDRIVES}{}", redrive.id));
        let body = serde_json::to_string(redrive).map_err(StoreError::Unwritable)?;
        Ok(self.table.put_all(vec![record(key, "redrive", body, redrive.at)]).await?)
    }

    /// The latest redrives, the newest first.
    pub async fn redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError> {
        let query = Query {
            index: None,
            partition: OPERATIONS.to_owned(),
            range: SortRange::Prefix(REDRIVES.to_owned()),
            descending: true,
            limit,
            after: None,
        };
        let page = self.table.query(&query).await?;
        page.items.iter().map(read).collect()
    }
}
