//! The spool of outgoing envelopes.

use pilothouse_sqlite::rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::envelopes::{SENT, UNSENT, WITHHELD, insert_all, last_sequence};
use super::{Outgoing, Spool, SpoolError, Urgency, merge};
use crate::oversize::Blob;

#[derive(Debug, Default)]
pub struct Batch {
    pub entries: Vec<BatchEntry>,
    /// Whether no further envelope fits.
    pub is_full: bool,
    /// Whether blobs must be uploaded first ([`Spool::next_blob`]).
    pub has_blobs: bool,
}

impl Batch {
    pub(crate) fn last_sequence(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.sequence).max()
    }

    /// Whether the batch must not wait for more envelopes.
    pub fn is_due(&self) -> bool {
        self.is_full || self.has(Urgency::Now)
    }

    /// Whether it contains an envelope of this urgency.
    pub fn has(&self, urgency: Urgency) -> bool {
        self.entries.iter().any(|entry| entry.urgency == urgency)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchEntry {
    pub sequence: u64,
    pub message_id: String,
    /// Counts deliveries from 1. After a lost response, the repeated request is the same delivery.
    pub attempt: u32,
    /// JSON of the signed envelope.
    pub body: String,
    /// How long it may wait for others.
    pub urgency: Urgency,
}

impl Spool {
    /// Stores `outgoing` with the next sequences, durable on return. Returns the last sequence. While many envelopes wait, progress and
    /// output are merged into the last one.
    pub async fn append(&self, outgoing: Outgoing) -> Result<u64, SpoolError> {
        self.append_all(vec![outgoing]).await
    }

    pub async fn append_all(&self, outgoing: Vec<Outgoing>) -> Result<u64, SpoolError> {
        let sealer = self.sealer.clone();
        let last = self.write(move |db| merge::append(db, &sealer, &outgoing)).await?;
        self.changed.notify_one();
        Ok(last)
    }

    /// A fault that a script injects: the envelopes are sent in the wrong order.
    pub async fn append_swapped(&self, first: Outgoing, second: Outgoing) -> Result<u64, SpoolError> {
        let sealer = self.sealer.clone();
        let last = self
            .write(move |db| {
                let before = insert_all(db, &sealer, std::slice::from_ref(&first))?;
                let last = insert_all(db, &sealer, std::slice::from_ref(&second))?;
                db.execute("UPDATE outgoing SET send_order = ?2 WHERE sequence = ?1", params![before, last])?;
                db.execute("UPDATE outgoing SET send_order = ?2 WHERE sequence = ?1", params![last, before])?;
                Ok(last)
            })
            .await?;
        self.changed.notify_one();
        Ok(last)
    }

    pub async fn last_sequence(&self) -> Result<u64, SpoolError> {
        self.write(|db| last_sequence(db)).await
    }

    /// The next envelopes to send: at most `most`, of about `bytes` bytes together, but at least one if there is any.
    pub async fn batch(&self, most: usize, bytes: usize) -> Result<Batch, SpoolError> {
        self.write(move |db| next_batch(db, most, bytes)).await
    }

    /// Records what the broker accepted. `deliveries` are pairs of sequence and attempt. Returns the next batch, like [`Self::batch`].
    /// After a power failure the envelopes may be sent again, and the broker recognises them by their deduplication ids.
    pub async fn accepted(
        &self,
        deliveries: Vec<(u64, u32)>,
        most: usize,
        bytes: usize,
    ) -> Result<Batch, SpoolError> {
        let sealer = self.sealer.clone();
        self.write_unsynced(move |db| {
            mark_accepted(db, &deliveries)?;
            merge::notify_if_relieved(db, &sealer)?;
            next_batch(db, most, bytes)
        })
        .await
    }

    /// Queues the envelopes that were withheld until a replay.
    pub async fn release_withheld(&self) -> Result<(), SpoolError> {
        self.write(|db| {
            db.execute("UPDATE outgoing SET state = ?1 WHERE state = ?2", params![UNSENT, WITHHELD])?;
            Ok(())
        })
        .await
    }

    pub async fn unsent(&self) -> Result<u64, SpoolError> {
        self.write(|db| {
            Ok(db.query_row("SELECT COUNT(*) FROM outgoing WHERE state = 0", [], |row| row.get(0))?)
        })
        .await
    }

    /// A blob that must be uploaded before the envelope `sequence` is sent.
    pub async fn next_blob(&self, sequence: u64) -> Result<Option<Blob>, SpoolError> {
        self.write(move |db| {
            let row = |row: &Row<'_>| Ok(Blob { sha256: row.get(0)?, bytes: row.get(1)? });
            Ok(db
                .prepare_cached("SELECT sha256, bytes FROM blobs WHERE sequence <= ?1 LIMIT 1")?
                .query_row([sequence], row)
                .optional()?)
        })
        .await
    }

    /// Deletes a blob after its upload. After a power failure it may be uploaded again.
    pub async fn blob_stored(&self, sha256: String) -> Result<(), SpoolError> {
        self.write_unsynced(move |db| {
            db.execute("DELETE FROM blobs WHERE sha256 = ?1", [&sha256])?;
            Ok(())
        })
        .await
    }
}

fn next_batch(db: &Connection, most: usize, bytes: usize) -> Result<Batch, SpoolError> {
    let mut statement = db.prepare_cached(
        "SELECT sequence, message_id, attempt, body, urgent FROM outgoing WHERE state = 0 ORDER BY send_order LIMIT ?1",
    )?;
    let mut rows = statement.query([most])?;
    let mut batch = Batch::default();
    let mut total = 0;
    while let Some(row) = rows.next()? {
        let entry = BatchEntry {
            sequence: row.get(0)?,
            message_id: row.get(1)?,
            attempt: row.get(2)?,
            body: row.get(3)?,
            urgency: row.get(4)?,
        };
        total += entry.body.len();
        if total > bytes && !batch.entries.is_empty() {
            batch.is_full = true;
            break;
        }
        batch.entries.push(entry);
    }
    batch.is_full |= batch.entries.len() >= most || total >= bytes;
    if let Some(last) = batch.last_sequence() {
        batch.has_blobs = db.prepare_cached("SELECT 1 FROM blobs WHERE sequence <= ?1")?.exists([last])?;
    }
    Ok(batch)
}

fn mark_accepted(db: &Connection, deliveries: &[(u64, u32)]) -> Result<(), SpoolError> {
    // A replay during the request raised the attempt. The envelope stays unsent.
    let mut once_more = db.prepare_cached(
        "UPDATE outgoing SET extra_sends = extra_sends - 1, attempt = attempt + 1
             WHERE sequence = ?1 AND attempt = ?2 AND extra_sends > 0",
    )?;
    let mut done =
        db.prepare_cached("UPDATE outgoing SET state = ?3 WHERE sequence = ?1 AND attempt = ?2")?;
    for (sequence, attempt) in deliveries {
        if once_more.execute(params![sequence, attempt])? == 0 {
            done.execute(params![sequence, attempt, SENT])?;
        }
    }
    Ok(())
}
