//! Deliverables of the working directory (S4): the operations of the `deliverable` tool, and the events that report
//! them.
//!
//! | module | purpose |
//! |---|---|
//! | [`repository`] | the repository interfaces of S4 |
//! | [`file`] | their implementation: `.pilothouse/status.json` |

pub mod file;
pub mod repository;

use std::path::Path;
use std::sync::Arc;

use pilothouse_domain::deliverable::{
    CreateDeliverableInput, Deliverable, DeliverableStatus, InvalidDeliverable, OperationError,
    OperationResult, SetDeliverableStatusInput, SetStatusError,
};
use pilothouse_wire::RawEvent;
use pilothouse_wire::event::RawDeliverable;
use tokio::sync::Mutex;
use tracing::error;

use crate::adapter::EventSink;
use crate::process::Processes;
use crate::process::in_process::AgentThread;
use crate::spool::SpoolError;
use file::{StatusFile, today};
use repository::{DeliverableStatusReader as _, RepositoryError};

/// The deliverables of a working directory. Clones share the snapshot that the control plane has.
#[derive(Clone)]
pub struct Deliverables(Arc<Shared>);

struct Shared {
    file: StatusFile,
    /// Runs file operations with the agent's rights, if the agent runs as another user or is confined, because the
    /// agent owns the file.
    thread: Option<AgentThread>,
    events: EventSink,
    /// The last published snapshot. The lock is held for a whole operation, to publish snapshots in the order of the
    /// changes.
    published: Mutex<Option<Vec<RawDeliverable>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeliverablesError {
    /// The status file cannot be used.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// A snapshot could not be spooled.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The process is ending.
    #[error("the operation on the status file was interrupted")]
    CutOff,
}

enum Refused {
    Invalid(Vec<InvalidDeliverable>),
    NotSet(SetStatusError),
    Repository(RepositoryError),
}

impl From<RepositoryError> for Refused {
    fn from(e: RepositoryError) -> Self {
        Self::Repository(e)
    }
}

impl From<Refused> for OperationResult {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Invalid(wrong) => wrong.into(),
            Refused::NotSet(e) => e.into(),
            Refused::Repository(
                e @ (RepositoryError::Broken { .. } | RepositoryError::NotConfined { .. }),
            ) => Self::failed(OperationError::StatusFileBroken, e.to_string()),
            Refused::Repository(e) => Self::failed(OperationError::StorageFailed, e.to_string()),
        }
    }
}

impl Deliverables {
    /// Opens the deliverables of `working_directory`, to be published to `events`. The file is read and written with
    /// the rights of the agent's processes.
    pub fn new(working_directory: &Path, events: EventSink, processes: &Processes) -> std::io::Result<Self> {
        let file = StatusFile::of(working_directory);
        let thread = processes.file_thread()?;
        Ok(Self(Arc::new(Shared { file, thread, events, published: Mutex::default() })))
    }

    /// Creates deliverables, all or none (S4 `create`).
    pub async fn create(&self, input: CreateDeliverableInput) -> OperationResult {
        self.operate(move |status| match status.create(input, today()) {
            Ok(made) => Ok(OperationResult::created(made)),
            Err(wrong) => Err(Refused::Invalid(wrong)),
        })
        .await
    }

    /// Sets the status of a deliverable (S4 `set_status`).
    pub async fn set_status(&self, input: SetDeliverableStatusInput) -> OperationResult {
        let SetDeliverableStatusInput { deliverable_id: id, status: to } = input;
        self.operate(move |status| match status.set_status(&id, to, today()) {
            Ok(before) => Ok(OperationResult::status_set(&id, before, to, status)),
            Err(e) => Err(Refused::NotSet(e)),
        })
        .await
    }

    /// Reads the status file, and publishes its content if it differs from the last published snapshot, as at the start
    /// of a run or after a change by another process.
    pub async fn refresh(&self) -> Result<DeliverableStatus, DeliverablesError> {
        let mut published = self.0.published.lock().await;
        let file = self.0.file.clone();
        let status = self.blocking(move || file.load()).await??;
        let snapshot = snapshot(&status);
        // A directory without deliverables is not published.
        let is_new = published.as_ref().map_or(!snapshot.is_empty(), |published| *published != snapshot);
        if is_new {
            self.publish(&mut published, snapshot).await?;
        }
        Ok(status)
    }

    /// Records a snapshot that another part of this run is about to publish. Returns whether it is new.
    pub async fn record_published(&self, snapshot: &[RawDeliverable]) -> bool {
        let mut published = self.0.published.lock().await;
        let is_new = published.as_deref() != Some(snapshot);
        if is_new {
            *published = Some(snapshot.to_vec());
        }
        is_new
    }

    async fn operate(
        &self,
        change: impl FnOnce(&mut DeliverableStatus) -> Result<OperationResult, Refused> + Send + 'static,
    ) -> OperationResult {
        // A separate task, because the caller may be cancelled and a change must always be published.
        let this = self.clone();
        let done = tokio::spawn(async move { this.operate_whole(change).await }).await;
        done.unwrap_or_else(|_| {
            OperationResult::failed(OperationError::StorageFailed, DeliverablesError::CutOff.to_string())
        })
    }

    async fn operate_whole(
        &self,
        change: impl FnOnce(&mut DeliverableStatus) -> Result<OperationResult, Refused> + Send + 'static,
    ) -> OperationResult {
        let mut published = self.0.published.lock().await;
        let file = self.0.file.clone();
        let changed = self.blocking(move || file.change(change)).await;
        let (status, result) = match changed {
            Ok(Ok(changed)) => changed,
            Ok(Err(refused)) => return refused.into(),
            Err(e) => return OperationResult::failed(OperationError::StorageFailed, e.to_string()),
        };
        if let Err(e) = self.publish(&mut published, snapshot(&status)).await {
            // The file has the change. The next change publishes it, or at the latest the next run.
            error!(error = &e as &dyn std::error::Error, "failed to publish the deliverables");
        }
        result
    }

    /// Runs file operations off the sidecar's only async thread, with the agent's rights.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DeliverablesError> {
        let done = match &self.0.thread {
            Some(thread) => thread.run(async { tokio::task::spawn_blocking(work).await }).await,
            None => Ok(tokio::task::spawn_blocking(work).await),
        };
        done.ok().and_then(Result::ok).ok_or(DeliverablesError::CutOff)
    }

    async fn publish(
        &self,
        published: &mut Option<Vec<RawDeliverable>>,
        snapshot: Vec<RawDeliverable>,
    ) -> Result<(), SpoolError> {
        self.0.events.emit(RawEvent::Deliverables { deliverables: snapshot.clone() }).await?;
        *published = Some(snapshot);
        Ok(())
    }
}

fn snapshot(status: &DeliverableStatus) -> Vec<RawDeliverable> {
    let raw = |one: &Deliverable| RawDeliverable {
        id: one.id.as_str().to_owned(),
        description: one.description.clone(),
        acceptance_criteria: one.acceptance_criteria.clone(),
        status: one.status,
    };
    status.deliverables().iter().map(raw).collect()
}

#[cfg(test)]
mod tests;
