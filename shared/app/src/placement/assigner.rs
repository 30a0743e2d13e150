//! Assigns runs to workers. Every change is a transaction under the versions that it is based on ([`pilothouse_store::workers`]),
//! so that launches, heartbeats and claims may run concurrently.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::{Broker, OutgoingMessage, QueueError};
use pilothouse_domain::placement::{HeartbeatPolicy, PlacementRules};
use pilothouse_domain::{AgentSession, AgentSessionId, Deadlines, RunId, Timestamp};
use pilothouse_runtime::{ReportError, RunEvents as _};
use pilothouse_store::{Clock, CommitError, Loaded, Store, StoreError, WorkerKey, WorkerRecord};
use pilothouse_wire::RootSecret;
use pilothouse_wire::launch::{LaunchRequest, RunExit};
use pilothouse_wire::worker::{Order, StopOrder};

use crate::App;
use crate::placement::changes::{AssignmentOutcome, LaunchOrder};
use crate::placement::facts::worker_offer;
use crate::problem::Problem;
use crate::queues;
use crate::run_exit::RunExitReporter;
use crate::unit_of_work::{LostRace, UnitOfWork};

#[derive(Clone)]
pub struct WorkerAssigner {
    pub(super) store: Store,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) run_exits: RunExitReporter,
    pub(super) heartbeats: HeartbeatPolicy,
    deadlines: Deadlines,
    clock: Clock,
}

#[derive(Debug, thiserror::Error)]
pub enum AssignmentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Too many write conflicts.
    #[error("too many concurrent changes")]
    Contended,
    #[error("failed to send an order to the worker")]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl From<CommitError> for AssignmentError {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(error) => Self::Store(error),
            CommitError::Conflict
            | CommitError::ResponseExists
            | CommitError::MessageExists
            | CommitError::NameTaken => Self::Contended,
        }
    }
}

impl LostRace for AssignmentError {
    fn is_lost_race(&self) -> bool {
        matches!(self, Self::Contended)
    }
}

impl From<AssignmentError> for Problem {
    fn from(error: AssignmentError) -> Self {
        match error {
            AssignmentError::Contended => Self::VersionConflict,
            AssignmentError::Store(error) => error.into(),
            AssignmentError::Queue(error) => Self::internal(error),
            AssignmentError::Report(error) => Self::internal(error),
        }
    }
}

impl WorkerAssigner {
    /// `secret` signs the reports of ended runs.
    pub fn new(
        store: Store,
        broker: Arc<dyn Broker>,
        secret: RootSecret,
        deadlines: &Deadlines,
        clock: Clock,
    ) -> Self {
        let run_exits = RunExitReporter::new(Arc::clone(&broker), secret, Arc::clone(&clock));
        let heartbeats = HeartbeatPolicy::of(deadlines);
        Self { store, broker, run_exits, heartbeats, deadlines: *deadlines, clock }
    }

    pub fn of(app: &App) -> Self {
        Self::new(
            app.store.clone(),
            Arc::clone(&app.broker),
            app.secret.clone(),
            &app.deadlines,
            Arc::clone(&app.clock),
        )
    }

    pub(super) fn unit_of_work(&self) -> UnitOfWork<'_> {
        UnitOfWork::new(&self.store, &self.clock, self.deadlines)
    }

    pub(super) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    pub const fn heartbeat_interval(&self) -> Duration {
        self.heartbeats.heartbeat
    }

    /// Reports the end of a run, as its worker reported it.
    pub async fn report_exit(
        &self,
        session: AgentSessionId,
        run: RunId,
        exit: RunExit,
    ) -> Result<(), AssignmentError> {
        Ok(self.run_exits.report_exit(session, run, exit).await?)
    }

    pub(super) fn rules(&self) -> PlacementRules {
        PlacementRules { heartbeats: self.heartbeats, now: self.now() }
    }

    /// Whether a worker sent a heartbeat recently.
    pub fn is_alive(&self, worker: &WorkerRecord) -> bool {
        self.rules().is_alive(&worker_offer(worker))
    }

    /// The worker that has the session's folders, if it is still registered (decision 23).
    pub(super) async fn home_of(
        &self,
        session: AgentSessionId,
    ) -> Result<Option<Loaded<WorkerRecord>>, AssignmentError> {
        match self.store.session_worker(session).await? {
            Some(home) => Ok(self.store.worker(&home).await?),
            None => Ok(None),
        }
    }

    /// Sends a worker the order to launch a run. Repeats have the same message id, so the queue drops them.
    pub(super) async fn send_launch(&self, order: LaunchOrder) -> Result<(), AssignmentError> {
        let LaunchOrder { worker, request, at } = order;
        let id = format!("launch-{}-{}", request.run_id, at.as_millis());
        let group = request.session_id.to_string();
        self.send_order(&worker, group, id, &Order::Launch { request }).await
    }

    /// Sends the order that follows from an assignment.
    pub(super) async fn follow_assignment(
        &self,
        run: RunId,
        outcome: AssignmentOutcome,
    ) -> Result<(), AssignmentError> {
        match outcome {
            AssignmentOutcome::Unchanged => Ok(()),
            AssignmentOutcome::Queued => {
                tracing::info!(%run, "no worker is available; the launch is queued");
                Ok(())
            }
            AssignmentOutcome::Assigned(order) => {
                tracing::info!(%run, worker = %order.worker.id, "assigned a run to a worker");
                self.send_launch(order).await
            }
            AssignmentOutcome::OrderPending(order) => self.send_launch(order).await,
        }
    }

    pub(super) async fn send_stop(
        &self,
        worker: &WorkerKey,
        request: &LaunchRequest,
        mode: StopOrder,
    ) -> Result<(), AssignmentError> {
        let (session_id, run_id) = (request.session_id, request.run_id);
        let id = match mode {
            StopOrder::Terminate => format!("terminate-{run_id}"),
            StopOrder::Kill => format!("kill-{run_id}"),
        };
        let order = Order::Stop { session_id, run_id, mode };
        match self.send_order(worker, session_id.to_string(), id, &order).await {
            // The worker was removed, so there is no process to stop.
            Err(AssignmentError::Queue(QueueError::NoSuchQueue(_))) => Ok(()),
            sent => sent,
        }
    }

    async fn send_order(
        &self,
        worker: &WorkerKey,
        group: String,
        id: String,
        order: &Order,
    ) -> Result<(), AssignmentError> {
        let body = serde_json::to_string(order).map_err(StoreError::Unwritable)?;
        let sent =
            self.broker.send(&queues::worker(worker), vec![OutgoingMessage::new(group, id, body)]).await?;
        match sent.failed.into_iter().next() {
            None => Ok(()),
            Some((_, error)) => Err(error.into()),
        }
    }

    /// The session of a request, if the run is its current one.
    pub(super) async fn session_of(
        &self,
        request: &LaunchRequest,
    ) -> Result<Option<AgentSession>, AssignmentError> {
        let session = self.store.session(request.session_id).await?;
        Ok(session.filter(|session| session.run().is_some_and(|run| run.id == request.run_id)))
    }

    /// Reports the end of a run that was never started, or that its worker does not know.
    pub(super) async fn report_over(
        &self,
        request: &LaunchRequest,
        why: &str,
    ) -> Result<(), AssignmentError> {
        let exit = RunExit { code: None, signal: None, drained: true, detail: Some(why.to_owned()) };
        Ok(self.run_exits.report_exit(request.session_id, request.run_id, exit).await?)
    }

    /// Ends a run whose machine its owner declared lost (decision 13).
    pub(super) async fn report_lost(
        &self,
        worker: &WorkerKey,
        request: &LaunchRequest,
    ) -> Result<(), AssignmentError> {
        let detail = format!("the worker {} was declared lost", worker.id);
        Ok(self.run_exits.run_lost(request.session_id, request.run_id, detail).await?)
    }
}
