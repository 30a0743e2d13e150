//! Quarantined events, and the log of redrives (decision 9).
//!
//! The sequence of a quarantined event counts as consumed. A record states that the event still has to be applied. The commit that
//! applies it removes the record, so that it is applied once, however often it is sent.

use pilothouse_domain::{AgentSessionId, RunId, Timestamp, UserId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Purpose, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, read};
use crate::table::{Condition, Item, Key, Query, SortRange, Write};

const OPERATIONS: &str = "OPERATIONS";
const REDRIVES: &str = "REDRIVE#";
/// Version of a record that never changes.
const RECORD_VERSION: u64 = 1;

/// An event that could not be applied in its turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineRecord {
    /// Why it could not be applied.
    pub cause: String,
}

/// A redrive of dead letters, with its cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Redrive {
    pub id: String,
    pub at: Timestamp,
    pub by: UserId,
    pub queue: String,
    pub letters: u64,
    pub bytes: u64,
    /// Broker requests as SQS bills them: one for each started 64 KiB of a message.
    pub requests: u64,
}

fn record(key: Key, kind: &str, body: String) -> Item {
    Item { version: RECORD_VERSION, ..item(key, kind, body) }
}

impl Commit {
    /// Quarantines an event until [`Self::mark_reprocessed`].
    pub fn quarantine_event(
        &mut self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
        aside: &QuarantineRecord,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_string(aside).map_err(StoreError::Unwritable)?;
        let mut row = record(layout::quarantine_event(id, run, sequence), "quarantined", body);
        self.retain(&mut row, now);
        self.writes.push((Write::Put(row, Condition::Always), Purpose::Record));
        Ok(())
    }

    /// Records that this commit applies a quarantined event. The commit conflicts if another applied it first.
    pub fn mark_reprocessed(&mut self, id: AgentSessionId, run: RunId, sequence: u64) {
        let key = layout::quarantine_event(id, run, sequence);
        self.writes.push((Write::Delete(key, Condition::Version(RECORD_VERSION)), Purpose::Guard));
    }
}

impl Commit {
    /// Whether this commit applies the quarantined event of a sequence.
    pub fn is_reprocessed(&self, id: AgentSessionId, run: RunId, sequence: u64) -> bool {
        let key = layout::quarantine_event(id, run, sequence);
        self.writes.iter().any(|(write, _)| matches!(write, Write::Delete(at, _) if *at == key))
    }
}

impl Store {
    /// Whether the event of a sequence is quarantined and was not applied since.
    pub async fn is_quarantined(
        &self,
        id: AgentSessionId,
        run: RunId,
        sequence: u64,
    ) -> Result<bool, StoreError> {
        Ok(self.table.get(&layout::quarantine_event(id, run, sequence)).await?.is_some())
    }

    pub async fn record_redrive(&self, redrive: &Redrive) -> Result<(), StoreError> {
        let key = Key::new(OPERATIONS, format!("{REDRIVES}{}", redrive.id));
        let body = serde_json::to_string(redrive).map_err(StoreError::Unwritable)?;
        let expires_at = Some(redrive.at + self.retention().duration());
        Ok(self.table.put_all(vec![Item { expires_at, ..record(key, "redrive", body) }]).await?)
    }

    /// The latest redrives, newest first.
    pub async fn redrives(&self, limit: usize) -> Result<Vec<Redrive>, StoreError> {
        let query = Query {
            descending: true,
            ..Query::new(OPERATIONS.to_owned(), SortRange::Prefix(REDRIVES.to_owned()), limit)
        };
        let page = self.table.query(&query).await?;
        page.items.iter().map(read).collect()
    }
}
