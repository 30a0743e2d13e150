//! The spool: a SQLite file that stores envelopes and commands before they are processed.
//!
//! Sequences count from 1 without gaps (decision 9), commands are deduplicated by id (decision 10), and all data of one
//! step is written in one transaction.

mod commands;
mod envelopes;
mod merge;
mod outgoing;
mod seal;
mod traces;
mod urgency;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::{CommandId, Timestamp};
use pilothouse_sqlite::{Database, OpenError, Schema, Tx, WriteError, is_disk_full, rusqlite};
use pilothouse_wire::RawEvent;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};
use tracing::warn;

pub use commands::Taken;
pub use envelopes::Delivery;
pub use outgoing::{Batch, BatchEntry};
pub use seal::Sealer;
use traces::Answers;
pub use urgency::Urgency;

use crate::oversize::{self, Blob};
use crate::redaction::Redactor;

const SCHEMA: Schema = Schema {
    component: "sidecar-spool",
    steps: &[include_str!("schema.sql"), traces::TABLES, merge::TABLES, urgency::COLUMN],
};

/// First and longest wait between retries while the disk is full.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(1);

/// Why the spool failed. The sidecar cannot continue without it.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    #[error("failed to open the spool")]
    Open(#[from] OpenError),
    #[error("failed to read or write the spool")]
    Statement(#[from] rusqlite::Error),
    #[error("failed to commit to the spool")]
    Commit(#[source] Arc<rusqlite::Error>),
    /// An event or a stored row is not valid JSON.
    #[error("failed to encode or decode an entry of the spool")]
    Json(#[from] serde_json::Error),
    /// The writer thread has ended.
    #[error("the spool is closed")]
    Gone,
}

impl From<WriteError<Self>> for SpoolError {
    fn from(e: WriteError<Self>) -> Self {
        match e {
            WriteError::Job(e) => e,
            WriteError::Commit(e) => Self::Commit(e),
            WriteError::Abandoned => Self::Gone,
        }
    }
}

#[derive(Debug)]
pub struct Outgoing {
    content: OutgoingContent,
    delivery: Delivery,
    answers: Answers,
    /// How long it may wait for other events.
    urgency: Urgency,
    /// When it happened, if the agent's own clock says so.
    occurred_at: Option<Timestamp>,
}

#[derive(Debug)]
enum OutgoingContent {
    Event(Box<RawEvent>),
    Raw(Box<RawValue>),
}

/// Bodies that fit an envelope each, and their blobs.
#[derive(Default)]
struct Packed {
    bodies: Vec<Box<RawValue>>,
    blobs: Vec<Blob>,
}

impl OutgoingContent {
    /// Redacts secrets, then moves large parts to blobs. The order matters, because blobs are not redacted later.
    fn pack(&self, redactor: &Redactor) -> Result<Packed, SpoolError> {
        match self {
            Self::Event(event) => match redactor.event((**event).clone()) {
                Ok(event) => {
                    let mut blobs = Vec::new();
                    let events = oversize::fit(event, &mut blobs)?;
                    let bodies =
                        events.iter().map(serde_json::value::to_raw_value).collect::<Result<_, _>>()?;
                    Ok(Packed { bodies, blobs })
                }
                // Without the redacted part the event is not valid. A notice replaces it.
                Err(_) => Ok(Packed { bodies: vec![withheld()?], blobs: Vec::new() }),
            },
            Self::Raw(body) => {
                let body = match redactor.json(body.get())? {
                    Some(clean) => RawValue::from_string(clean)?,
                    None => body.clone(),
                };
                Ok(Packed { bodies: vec![body], blobs: Vec::new() })
            }
        }
    }
}

fn withheld() -> Result<Box<RawValue>, SpoolError> {
    let summary = "an event was withheld because it contained a secret that could not be removed".to_owned();
    let notice = RawEvent::Notice { name: "event_withheld".into(), summary, detail: None };
    Ok(serde_json::value::to_raw_value(&notice)?)
}

impl Outgoing {
    pub fn event(event: RawEvent) -> Result<Self, SpoolError> {
        let (answers, urgency) = (Answers::of(&event), Urgency::of(&event));
        let content = OutgoingContent::Event(Box::new(event));
        Ok(Self { content, delivery: Delivery::Normal, answers, urgency, occurred_at: None })
    }

    /// Any JSON, whether or not it is a known event.
    pub fn raw(body: Box<RawValue>) -> Self {
        let content = OutgoingContent::Raw(body);
        let (delivery, answers) = (Delivery::Normal, Answers::Nothing);
        Self { content, delivery, answers, urgency: Urgency::Now, occurred_at: None }
    }

    /// Marks this as the answer to a command.
    #[must_use]
    pub(super) fn answering(mut self, command: CommandId) -> Self {
        self.answers = Answers::Command(command);
        self
    }

    /// The time by the agent's own clock.
    #[must_use]
    pub(crate) const fn occurred(mut self, at: Option<Timestamp>) -> Self {
        self.occurred_at = at;
        self
    }

    #[must_use]
    pub const fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

#[derive(Clone)]
pub struct Spool {
    db: Database,
    sealer: Sealer,
    changed: Arc<Notify>,
    /// Number of writes that wait because the disk is full.
    waiting: watch::Sender<usize>,
}

/// Counts a waiting write until it is dropped.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(waiting: &'a watch::Sender<usize>) -> Self {
        waiting.send_modify(|count| *count += 1);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Spool {
    /// Creates the file if it does not exist.
    pub fn open(path: &Path, sealer: Sealer) -> Result<Self, SpoolError> {
        let db = Database::open(path, &[SCHEMA])?;
        Ok(Self { db, sealer, changed: Arc::new(Notify::new()), waiting: watch::Sender::new(0) })
    }

    /// Runs `job` in a transaction and returns when it is on disk. Reads use the same connection: they are few, and a
    /// second one would use memory.
    ///
    /// While the disk is full, this waits for space. Callers that need a durable event wait too, so the agent stops at
    /// its next step and no event is lost.
    async fn write<T, F>(&self, job: F) -> Result<T, SpoolError>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T, SpoolError> + Send + Sync + 'static,
    {
        let job = Arc::new(job);
        self.until_written(|| {
            let once = Arc::clone(&job);
            self.db.write(move |db| once(db))
        })
        .await
    }

    /// Like [`Self::write`], but returns before the changes are on the disk. Use it for changes that are repeated after a power failure.
    async fn write_unsynced<T, F>(&self, job: F) -> Result<T, SpoolError>
    where
        T: Send + 'static,
        F: Fn(&Tx<'_>) -> Result<T, SpoolError> + Send + Sync + 'static,
    {
        let job = Arc::new(job);
        self.until_written(|| {
            let once = Arc::clone(&job);
            self.db.write_unsynced(move |db| once(db))
        })
        .await
    }

    async fn until_written<T, F>(&self, mut attempt: impl FnMut() -> F) -> Result<T, SpoolError>
    where
        F: Future<Output = Result<T, WriteError<SpoolError>>>,
    {
        let mut wait = FIRST_RETRY;
        let mut waiting = None;
        loop {
            match attempt().await {
                Err(error) if is_disk_full(&error) => {
                    if waiting.is_none() {
                        warn!("the disk is full; the agent is blocked until there is space");
                        waiting = Some(Waiting::begin(&self.waiting));
                    }
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(LAST_RETRY);
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Retries a write outside the spool while the disk is full.
    pub async fn until_space<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut waiting = None;
        loop {
            match attempt() {
                Err(error) if is_disk_full(&error) => {
                    waiting.get_or_insert_with(|| Waiting::begin(&self.waiting));
                    tokio::time::sleep(LAST_RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Number of writes that wait because the disk is full.
    pub fn waiting_for_space(&self) -> watch::Receiver<usize> {
        self.waiting.subscribe()
    }

    /// Removes secrets from what is spooled.
    pub const fn redactor(&self) -> &Redactor {
        self.sealer.redactor()
    }

    /// Signs envelopes that bypass the spool.
    pub const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Waits until an event was spooled since the last call. For a single caller, the publisher.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}
