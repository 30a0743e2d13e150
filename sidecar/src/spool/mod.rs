//! The spool: envelopes and commands on disk, durable before anything else happens with them.
//!
//! Sequences count from 1 without gaps (ruling 9); commands are deduplicated by id (ruling 10); what one step
//! must leave behind together is one transaction.

mod commands;
mod outgoing;
mod seal;
mod traces;

#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;
use std::sync::Arc;

use pilothouse_domain::CommandId;
use pilothouse_sqlite::{Database, OpenError, Schema, Tx, WriteError, rusqlite};
use pilothouse_wire::RawEvent;
use serde_json::value::RawValue;
use tokio::sync::Notify;

pub use commands::Taken;
pub use outgoing::{Batch, BatchEntry, Delivery};
pub use seal::Sealer;
use traces::Answers;

use crate::oversize::{self, Blob};
use crate::redaction::Redactor;

/// The tables of the spool.
const SCHEMA: Schema =
    Schema { component: "sidecar-spool", steps: &[include_str!("schema.sql"), traces::TABLES] };

/// A spool that does not work. The sidecar cannot go on without one.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file cannot be opened.
    #[error("the spool cannot be opened")]
    Open(#[from] OpenError),
    /// A statement failed.
    #[error("the spool cannot be read or written")]
    Statement(#[from] rusqlite::Error),
    /// A commit failed.
    #[error("the spool cannot commit")]
    Commit(#[source] Arc<rusqlite::Error>),
    /// An event or a stored row is not JSON.
    #[error("an entry of the spool cannot be serialised")]
    Json(#[from] serde_json::Error),
    /// The writer is gone.
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

/// What is to be spooled.
#[derive(Debug)]
pub struct Outgoing {
    content: OutgoingContent,
    delivery: Delivery,
    answers: Answers,
}

#[derive(Debug)]
enum OutgoingContent {
    Event(Box<RawEvent>),
    Raw(Box<RawValue>),
}

/// Bodies that fit an envelope each, and the blobs that they refer to.
#[derive(Default)]
struct Packed {
    bodies: Vec<Box<RawValue>>,
    blobs: Vec<Blob>,
}

impl OutgoingContent {
    /// Leaves secrets out, and moves what is too large for an envelope to blobs: in this order, since nobody looks into
    /// blobs any more.
    fn pack(self, redactor: &Redactor) -> Result<Packed, SpoolError> {
        match self {
            Self::Event(event) => match redactor.event(*event) {
                Ok(event) => {
                    let mut blobs = Vec::new();
                    let events = oversize::fit(event, &mut blobs)?;
                    let bodies =
                        events.iter().map(serde_json::value::to_raw_value).collect::<Result<_, _>>()?;
                    Ok(Packed { bodies, blobs })
                }
                // Without its secret it is no such event any more, so that nobody could read it. That it was is told.
                Err(_) => Ok(Packed { bodies: vec![withheld()?], blobs: Vec::new() }),
            },
            Self::Raw(body) => {
                let body = match redactor.json(body.get())? {
                    Some(clean) => RawValue::from_string(clean)?,
                    None => body,
                };
                Ok(Packed { bodies: vec![body], blobs: Vec::new() })
            }
        }
    }
}

fn withheld() -> Result<Box<RawValue>, SpoolError> {
    let summary = "an event is withheld, since it held a secret where none can be left out".to_owned();
    let notice = RawEvent::Notice { name: "event_withheld".into(), summary, detail: None };
    Ok(serde_json::value::to_raw_value(&notice)?)
}

impl Outgoing {
    /// An event. Secrets are left out of it, and what is too large for an envelope is moved to blobs.
    pub fn event(event: RawEvent) -> Result<Self, SpoolError> {
        let answers = Answers::of(&event);
        Ok(Self { content: OutgoingContent::Event(Box::new(event)), delivery: Delivery::Normal, answers })
    }

    /// Any JSON as a body, known or not.
    pub fn raw(body: Box<RawValue>) -> Self {
        Self { content: OutgoingContent::Raw(body), delivery: Delivery::Normal, answers: Answers::Nothing }
    }

    /// The same as an answer to a command.
    #[must_use]
    pub(super) fn answering(mut self, command: CommandId) -> Self {
        self.answers = Answers::Command(command);
        self
    }

    /// The same with another delivery.
    #[must_use]
    pub const fn delivered(mut self, delivery: Delivery) -> Self {
        self.delivery = delivery;
        self
    }
}

/// The spool of one run.
#[derive(Clone)]
pub struct Spool {
    db: Database,
    sealer: Sealer,
    changed: Arc<Notify>,
}

impl Spool {
    /// Opens or creates the spool at `path`.
    pub fn open(path: &Path, sealer: Sealer) -> Result<Self, SpoolError> {
        let db = Database::open(path, &[SCHEMA])?;
        Ok(Self { db, sealer, changed: Arc::new(Notify::new()) })
    }

    /// Runs `job` in a transaction and answers when it is on disk. Reads go this way too: they are few, and a second
    /// connection would cost memory.
    async fn write<T, F>(&self, job: F) -> Result<T, SpoolError>
    where
        T: Send + 'static,
        F: FnOnce(&Tx<'_>) -> Result<T, SpoolError> + Send + 'static,
    {
        Ok(self.db.write(job).await?)
    }

    /// Leaves secrets out of what is spooled.
    pub const fn redactor(&self) -> &Redactor {
        self.sealer.redactor()
    }

    /// Signs what goes out beside the spool.
    pub const fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Returns when something was spooled since the last call. For the one publisher.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}
