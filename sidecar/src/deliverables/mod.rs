//! The deliverables of the working directory (S4): the operations of the `deliverable` tool, and what is told of them.
//!
//! | module | what it is |
//! |---|---|
//! | [`repository`] | the interfaces of S4 |
//! | [`file`] | `.pilothouse/status.json` behind them |

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
use crate::process::AgentUser;
use crate::process::in_process::AgentThread;
use crate::spool::SpoolError;
use file::{StatusFile, today};
use repository::{DeliverableStatusReader as _, RepositoryError};

/// The deliverables of a working directory, and how far the control plane knows them. Clones share them.
#[derive(Clone)]
pub struct Deliverables(Arc<Shared>);

struct Shared {
    file: StatusFile,
    /// Where files are worked on, when the agent runs as another user: the file is the agent's.
    thread: Option<AgentThread>,
    events: EventSink,
    /// What was told last. Held over a whole operation, so that snapshots are told in the order of the changes.
    told: Mutex<Option<Vec<RawDeliverable>>>,
}

/// Deliverables that could not be looked after.
#[derive(Debug, thiserror::Error)]
pub enum DeliverablesError {
    /// The status file cannot be used.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// What was found could not be told.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The process ends.
    #[error("the work on the status file was cut off")]
    CutOff,
}

/// Why an operation did not do what it should.
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
    /// Those of `working_directory`, told by `events`. `agent`: who the agent runs as, when that is not who the sidecar runs
    /// as.
    pub fn new(
        working_directory: &Path,
        events: EventSink,
        agent: Option<&AgentUser>,
    ) -> std::io::Result<Self> {
        let file = StatusFile::of(working_directory);
        let thread = agent.map(AgentThread::start).transpose()?;
        Ok(Self(Arc::new(Shared { file, thread, events, told: Mutex::default() })))
    }

    /// Creates deliverables: all of them or none (S4 `create`).
    pub async fn create(&self, input: CreateDeliverableInput) -> OperationResult {
        self.operate(move |status| match status.create(input, today()) {
            Ok(made) => Ok(OperationResult::created(made)),
            Err(wrong) => Err(Refused::Invalid(wrong)),
        })
        .await
    }

    /// Sets where a deliverable stands (S4 `set_status`).
    pub async fn set_status(&self, input: SetDeliverableStatusInput) -> OperationResult {
        let SetDeliverableStatusInput { deliverable_id: id, status: to } = input;
        self.operate(move |status| match status.set_status(&id, to, today()) {
            Ok(before) => Ok(OperationResult::status_set(&id, before, to, status)),
            Err(e) => Err(Refused::NotSet(e)),
        })
        .await
    }

    /// What the file has now. When that is not what was told last, it is told: a run begins in a directory that has some, or
    /// somebody else changed the file.
    pub async fn refresh(&self) -> Result<DeliverableStatus, DeliverablesError> {
        let mut told = self.0.told.lock().await;
        let file = self.0.file.clone();
        let status = self.blocking(move || file.load()).await??;
        let snapshot = snapshot(&status);
        // A directory that never had any says nothing.
        let news = told.as_ref().map_or(!snapshot.is_empty(), |told| *told != snapshot);
        if news {
            self.tell(&mut told, snapshot).await?;
        }
        Ok(status)
    }

    /// Somebody else of this run is about to tell all of them. Whether that is news; it counts as told then.
    pub async fn hears(&self, snapshot: &[RawDeliverable]) -> bool {
        let mut told = self.0.told.lock().await;
        let news = told.as_deref() != Some(snapshot);
        if news {
            *told = Some(snapshot.to_vec());
        }
        news
    }

    async fn operate(
        &self,
        change: impl FnOnce(&mut DeliverableStatus) -> Result<OperationResult, Refused> + Send + 'static,
    ) -> OperationResult {
        // A task of its own: whoever asked may be cut off, but a change is always told.
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
        let mut told = self.0.told.lock().await;
        let file = self.0.file.clone();
        let changed = self.blocking(move || file.change(change)).await;
        let (status, result) = match changed {
            Ok(Ok(changed)) => changed,
            Ok(Err(refused)) => return refused.into(),
            Err(e) => return OperationResult::failed(OperationError::StorageFailed, e.to_string()),
        };
        if let Err(e) = self.tell(&mut told, snapshot(&status)).await {
            // It is in the file, and is told with the next change or at the latest by the next run.
            error!(error = &e as &dyn std::error::Error, "deliverables cannot be told");
        }
        result
    }

    /// Files are read and written beside the one thread on which everything else waits, with the agent's rights.
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

    async fn tell(
        &self,
        told: &mut Option<Vec<RawDeliverable>>,
        snapshot: Vec<RawDeliverable>,
    ) -> Result<(), SpoolError> {
        self.0.events.emit(RawEvent::Deliverables { deliverables: snapshot.clone() }).await?;
        *told = Some(snapshot);
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
