use async_trait::async_trait;
use pilothouse_app::run_exit::RunExitReporter;
use pilothouse_domain::{AgentSessionId, RunId};
use pilothouse_runtime::{ReportError, RunEvents};
use pilothouse_sqlite::Database;
use pilothouse_wire::launch::RunExit;

/// Reports the runs of the built-in worker, whose sidecars cannot publish while the server's disk is full.
pub(super) struct LocalRunEvents {
    pub(super) reporter: RunExitReporter,
    pub(super) db: Database,
}

#[async_trait]
impl RunEvents for LocalRunEvents {
    async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), ReportError> {
        self.reporter.report_exit(session, run, exit).await
    }

    async fn is_ready(&self) -> bool {
        let is_full = *self.db.disk_full().borrow();
        !is_full
    }
}
