//! Outgoing envelopes.

use pilothouse_sqlite::rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Outgoing, Packed, Sealer, Spool, SpoolError, merge};
use crate::oversize::Blob;

/// All variants but the first are faults that a script injects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// In order, once.
    #[default]
    Normal,
    /// In order, twice.
    Twice,
    /// Only when a replay requests it or the spool is drained.
    OnReplay,
    /// Never, although its sequence is used.
    Never,
}

impl Delivery {
    const fn state(self) -> u8 {
        match self {
            Self::Normal | Self::Twice => UNSENT,
            Self::OnReplay => WITHHELD,
            Self::Never => LOST,
        }
    }
}

const UNSENT: u8 = 0;
const SENT: u8 = 1;
const WITHHELD: u8 = 2;
const LOST: u8 = 3;

#[derive(Debug, Default)]
pub struct Batch {
    pub entries: Vec<BatchEntry>,
    /// Whether no further envelope fits.
    pub is_full: bool,
}

impl Batch {
    /// Whether the batch must not wait for more envelopes.
    pub fn is_due(&self) -> bool {
        self.is_full || self.entries.iter().any(|entry| entry.is_urgent)
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
    /// Whether a person or the control plane waits for it.
    pub is_urgent: bool,
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
        self.write(move |db| {
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
                        is_urgent: row.get(4)?,
                    };
                    total += entry.body.len();
                    if total > bytes && !batch.entries.is_empty() {
                        batch.is_full = true;
                        break;
                    }
                    batch.entries.push(entry);
                }
                batch.is_full |= batch.entries.len() >= most || total >= bytes;
                Ok(batch)
            })
            .await
    }

    /// `deliveries` are pairs of sequence and attempt.
    pub async fn accepted(&self, deliveries: Vec<(u64, u32)>) -> Result<(), SpoolError> {
        let sealer = self.sealer.clone();
        self.write(move |db| {
            // A replay during the request raised the attempt. The envelope stays unsent.
            let mut once_more = db.prepare_cached(
                "UPDATE outgoing SET extra_sends = extra_sends - 1, attempt = attempt + 1
                     WHERE sequence = ?1 AND attempt = ?2 AND extra_sends > 0",
            )?;
            let mut done =
                db.prepare_cached("UPDATE outgoing SET state = ?3 WHERE sequence = ?1 AND attempt = ?2")?;
            for (sequence, attempt) in &deliveries {
                if once_more.execute(params![sequence, attempt])? == 0 {
                    done.execute(params![sequence, attempt, SENT])?;
                }
            }
            merge::notify_if_relieved(db, &sealer)
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

    /// Deletes a blob after its upload.
    pub async fn blob_stored(&self, sha256: String) -> Result<(), SpoolError> {
        self.write(move |db| {
            db.execute("DELETE FROM blobs WHERE sha256 = ?1", [&sha256])?;
            Ok(())
        })
        .await
    }
}

/// Queues these sequences for another delivery, verbatim and under a new deduplication id (decision 9). The control plane waits for
/// them. Returns their number.
pub(super) fn resend(db: &Connection, from: u64, to: u64) -> Result<usize, SpoolError> {
    // Sequences are SQLite integers, so larger bounds are beyond the end of the spool.
    let (from, to) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(to).unwrap_or(i64::MAX));
    Ok(db.execute(
        "UPDATE outgoing SET state = ?3, attempt = attempt + 1, send_order = sequence, urgent = 1
         WHERE sequence BETWEEN ?1 AND ?2 AND state <> ?4",
        params![from, to, UNSENT, LOST],
    )?)
}

pub(super) fn last_sequence(db: &Connection) -> Result<u64, SpoolError> {
    Ok(db.query_row("SELECT COALESCE(MAX(sequence), 0) FROM outgoing", [], |row| row.get(0))?)
}

/// Seals each body with the next sequence and inserts it. Returns the last sequence.
pub(super) fn insert_all(db: &Connection, sealer: &Sealer, outgoing: &[Outgoing]) -> Result<u64, SpoolError> {
    let mut sequence = last_sequence(db)?;
    let mut insert = db.prepare_cached(
        "INSERT INTO outgoing (sequence, send_order, message_id, body, state, extra_sends, urgent)
         VALUES (?1, ?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut insert_blob =
        db.prepare_cached("INSERT OR IGNORE INTO blobs (sha256, sequence, bytes) VALUES (?1, ?2, ?3)")?;
    for Outgoing { content, delivery, answers, urgent, occurred_at } in outgoing {
        let place = answers.place(db)?;
        let Packed { bodies, blobs } = content.pack(sealer.redactor())?;
        for blob in blobs {
            insert_blob.execute(params![blob.sha256, sequence + 1, blob.bytes])?;
        }
        for body in bodies {
            sequence += 1;
            let (message_id, envelope) = sealer.seal(Some(sequence), place, *occurred_at, body)?;
            let extra = u8::from(*delivery == Delivery::Twice);
            let message_id = message_id.to_string();
            insert.execute(params![sequence, message_id, envelope, delivery.state(), extra, urgent])?;
        }
    }
    Ok(sequence)
}
