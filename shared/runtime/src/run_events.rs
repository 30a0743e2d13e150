use async_trait::async_trait;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_wire::launch::RunExit;

/// Publishes the end of runs: a `run_exited` envelope, signed with the runtime's key, in the session's group of the events queue.
#[async_trait]
pub trait RunEvents: Send + Sync {
    /// Publishes that the process of a run ended, after everything in its spool was published (`drained`), or after a failed
    /// attempt.
    ///
    /// Called until it succeeds, each time after another attempt to publish the rest of the spool, and again if the worker is
    /// killed before it records the success. The consumer must recognise a repeated event by its run.
    async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), ReportError>;

    /// Whether the control plane can accept events of runs now. If it cannot, a failed attempt to publish a spool is repeated
    /// before the exit is reported.
    async fn is_ready(&self) -> bool {
        true
    }
}

/// The end of a run could not be published; the caller retries.
#[derive(Debug, thiserror::Error)]
#[error("failed to publish the end of the run")]
pub struct ReportError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
