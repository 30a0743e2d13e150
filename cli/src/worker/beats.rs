//! Heartbeats: what the worker has in hand, and in answer the way to its queue.

use std::sync::Arc;
use std::time::Duration;

use pilothouse_runtime::{ProcessState, Worker};
use pilothouse_wire::worker::{Heartbeat, HeartbeatAnswer, OrdersAccess, ReportedRun, RunState, WorkerId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::client::{ApiError, Client};
use crate::context::now;

/// How long to wait before an unanswered heartbeat is sent again.
const RETRY: Duration = Duration::from_secs(1);
/// The shortest time between two heartbeats, whatever the control plane says.
const SHORTEST: Duration = Duration::from_millis(50);
/// How long the last heartbeat may take.
const FAREWELL: Duration = Duration::from_secs(5);

/// Tells the control plane again and again that the worker lives.
#[derive(Clone)]
pub(super) struct Beats {
    client: Client,
    id: WorkerId,
    worker: Arc<Worker>,
    /// What it says of itself each time.
    said: Heartbeat,
    every: Duration,
    /// When a way to the queue is to be replaced by a fresh one.
    renew_at: Option<Instant>,
    access: Arc<watch::Sender<Option<OrdersAccess>>>,
}

impl Beats {
    pub(super) fn new(client: Client, id: WorkerId, worker: Arc<Worker>, said: Heartbeat) -> Self {
        let access = Arc::new(watch::Sender::new(None));
        Self { client, id, worker, said, every: RETRY, renew_at: None, access }
    }

    pub(super) const fn id(&self) -> &WorkerId {
        &self.id
    }

    /// The latest way to the worker's queue.
    pub(super) fn access(&self) -> watch::Receiver<Option<OrdersAccess>> {
        self.access.subscribe()
    }

    /// The first heartbeat: sent until it is answered, or refused.
    pub(super) async fn register(&mut self) -> Result<(), ApiError> {
        loop {
            match self.beat().await {
                Err(error) if may_pass(&error) => {
                    tracing::warn!(%error, "the control plane does not answer");
                    sleep(RETRY).await;
                }
                beaten => return beaten,
            }
        }
    }

    /// All that follow. One that fails is sent again soon; a control plane that is away is waited for.
    pub(super) async fn go_on(mut self) {
        loop {
            sleep(self.every).await;
            while let Err(error) = self.beat().await {
                tracing::warn!(%error, "a heartbeat failed");
                sleep(self.every.min(RETRY)).await;
            }
        }
    }

    /// The last heartbeat: nothing more, please.
    pub(super) async fn farewell(&mut self) {
        self.said.draining = true;
        match tokio::time::timeout(FAREWELL, self.beat()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the control plane was not told of the end"),
            Err(_) => tracing::warn!("the control plane was not told of the end in time"),
        }
    }

    async fn beat(&mut self) -> Result<(), ApiError> {
        let state = |state| match state {
            ProcessState::Alive | ProcessState::Waiting => RunState::Alive,
            ProcessState::Dead | ProcessState::Unknown => RunState::Over,
        };
        let runs = self.worker.runs().into_iter();
        self.said.runs = runs.map(|(_, run_id, seen)| ReportedRun { run_id, state: state(seen) }).collect();
        self.said.needs_access = self.renew_at.is_none_or(|at| at <= Instant::now());
        let HeartbeatAnswer { heartbeat_seconds, access } = self.client.beat(&self.id, &self.said).await?;
        self.every = Duration::try_from_secs_f64(heartbeat_seconds).unwrap_or(RETRY).max(SHORTEST);
        if let Some(access) = access {
            self.renew_at = Some(Instant::now() + half_life(&access));
            self.access.send_replace(Some(access));
        }
        Ok(())
    }
}

/// Half of the time that a way to the queue is good for: enough left for many tries.
fn half_life(access: &OrdersAccess) -> Duration {
    match access {
        OrdersAccess::Http {} => Duration::from_hours(1),
        OrdersAccess::Sqs(credentials) => credentials.expires_at.since(now()) / 2,
    }
}

/// Whether the same may be answered otherwise later.
fn may_pass(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable { .. } | ApiError::Transport(_) => true,
        ApiError::Unexpected { status, .. } => *status >= 500 || *status == 429,
        ApiError::Problem(problem) => problem.status >= 500 || problem.code == "version-conflict",
        _ => false,
    }
}
