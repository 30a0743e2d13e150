//! Telling that a run is over.

use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::launch::RunExit;

/// Publishes the end of runs: a `run_exited` envelope, signed with the runtime's key, in the session's group of
/// the events queue.
#[async_trait]
pub trait RunEvents: Send + Sync {
    /// Publishes that the process of a run is gone, after everything in its spool was published (`drained`), or
    /// after the attempt to.
    ///
    /// It is called until it succeeds, and once more if the worker is killed between the success and its note of
    /// it: what is published must be recognised by its run when it comes twice.
    async fn exited(&self, session: AgentSessionId, run: RunId, exit: RunExit) -> Result<(), ReportError>;
}

/// The end of a run could not be published; it is tried again.
#[derive(Debug, thiserror::Error)]
#[error("the end of the run could not be published")]
pub struct ReportError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
