//! Rows of outgoing envelopes.

use pilothouse_sqlite::rusqlite::{Connection, params};

use super::{Outgoing, Packed, Sealer, SpoolError, Urgency};

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

pub(super) const UNSENT: u8 = 0;
pub(super) const SENT: u8 = 1;
pub(super) const WITHHELD: u8 = 2;
const LOST: u8 = 3;

/// Queues these sequences for another delivery, verbatim and under a new deduplication id (decision 9). The control plane waits for
/// them. Returns their number.
pub(super) fn resend(db: &Connection, from: u64, to: u64) -> Result<usize, SpoolError> {
    // Sequences are SQLite integers, so larger bounds are beyond the end of the spool.
    let (from, to) = (i64::try_from(from).unwrap_or(i64::MAX), i64::try_from(to).unwrap_or(i64::MAX));
    Ok(db.execute(
        "UPDATE outgoing SET state = ?3, attempt = attempt + 1, send_order = sequence, urgent = ?5
         WHERE sequence BETWEEN ?1 AND ?2 AND state <> ?4",
        params![from, to, UNSENT, LOST, Urgency::Now],
    )?)
}

pub(super) fn last_sequence(db: &Connection) -> Result<u64, SpoolError> {
    Ok(db
        .prepare_cached("SELECT COALESCE(MAX(sequence), 0) FROM outgoing")?
        .query_row([], |row| row.get(0))?)
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
    for Outgoing { content, delivery, answers, urgency, occurred_at } in outgoing {
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
            insert.execute(params![sequence, message_id, envelope, delivery.state(), extra, urgency])?;
        }
    }
    Ok(sequence)
}
