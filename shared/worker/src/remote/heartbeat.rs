//! Heartbeats: report the worker's runs and its workspace with the free disk, and return the access to its queue.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use pilothouse_client::{ApiError, Client};
use pilothouse_domain::Timestamp;
use pilothouse_runtime::{AgentRuntime as _, ProcessState};
use pilothouse_wire::worker::{Heartbeat, HeartbeatResponse, OrdersAccess, ReportedRun, RunState, WorkerId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::Worker;

const RETRY: Duration = Duration::from_secs(1);
/// Shortest interval between heartbeats, whatever the control plane asks for. The control plane takes the interval from
/// `HeartbeatPolicy` in `pilothouse_domain::placement`.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const LAST_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Heartbeats {
    client: Client,
    id: WorkerId,
    worker: Arc<Worker>,
    report: Heartbeat,
    interval: Duration,
    /// When to request new access to the queue.
    renew_at: Option<Instant>,
    access: Arc<watch::Sender<Option<OrdersAccess>>>,
    /// The last acknowledged heartbeat. Its lost runs have been killed.
    acknowledged: Arc<watch::Sender<Option<Acknowledged>>>,
}

impl Heartbeats {
    pub(super) fn new(client: Client, id: WorkerId, worker: Arc<Worker>, report: Heartbeat) -> Self {
        let access = Arc::new(watch::Sender::new(None));
        let acknowledged = Arc::new(watch::Sender::new(None));
        Self { client, id, worker, report, interval: RETRY, renew_at: None, access, acknowledged }
    }

    pub(super) const fn id(&self) -> &WorkerId {
        &self.id
    }

    pub(super) fn access(&self) -> watch::Receiver<Option<OrdersAccess>> {
        self.access.subscribe()
    }

    pub(super) fn recent(&self) -> RecentHeartbeat {
        RecentHeartbeat { acknowledged: self.acknowledged.subscribe() }
    }

    /// Sends the first heartbeat until it is acknowledged or refused.
    pub(super) async fn register(&mut self) -> Result<(), ApiError> {
        loop {
            match self.send().await {
                Err(error) if is_transient(&error) => {
                    tracing::warn!(%error, "the control plane is unreachable; retrying");
                    sleep(RETRY).await;
                }
                result => return result,
            }
        }
    }

    pub(super) async fn run(mut self) {
        loop {
            sleep(self.interval).await;
            while let Err(error) = self.send().await {
                tracing::warn!(%error, "a heartbeat failed");
                sleep(self.interval.min(RETRY)).await;
            }
        }
    }

    /// Sends the last heartbeat: the worker accepts no more assignments.
    pub(super) async fn send_last(&mut self) {
        self.report.draining = true;
        match tokio::time::timeout(LAST_TIMEOUT, self.send()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "failed to send the last heartbeat"),
            Err(_) => tracing::warn!("the last heartbeat timed out"),
        }
    }

    async fn send(&mut self) -> Result<(), ApiError> {
        let state = |state| match state {
            ProcessState::Alive | ProcessState::Waiting | ProcessState::Unreachable => RunState::Alive,
            ProcessState::Dead | ProcessState::Unknown => RunState::Over,
        };
        let runs = self.worker.runs().into_iter();
        self.report.runs = runs.map(|(_, run_id, seen)| ReportedRun { run_id, state: state(seen) }).collect();
        self.report.workspace = self.worker.workspace().unwrap_or_default();
        self.report.needs_access = self.renew_at.is_none_or(|at| at <= Instant::now());
        let HeartbeatResponse { heartbeat_seconds, access, lost_runs } =
            self.client.send_heartbeat(&self.id, &self.report).await?;
        self.interval = Duration::try_from_secs_f64(heartbeat_seconds).unwrap_or(RETRY).max(MIN_INTERVAL);
        self.worker.kill_lost_runs(&lost_runs).await;
        self.acknowledged.send_replace(Some(Acknowledged { at: SystemTime::now(), interval: self.interval }));
        if let Some(access) = access {
            self.renew_at = Some(Instant::now() + half_life(&access));
            self.access.send_replace(Some(access));
        }
        Ok(())
    }
}

/// Waits for a recent heartbeat. A worker that was suspended or disconnected must kill its lost runs before it launches anything.
pub(super) struct RecentHeartbeat {
    acknowledged: watch::Receiver<Option<Acknowledged>>,
}

#[derive(Debug, Clone, Copy)]
struct Acknowledged {
    at: SystemTime,
    interval: Duration,
}

impl Acknowledged {
    /// Whether at most one heartbeat has failed since. Uses the wall clock, which includes suspensions; a step of that clock
    /// only costs the wait for a heartbeat.
    fn is_recent(&self) -> bool {
        self.at.elapsed().is_ok_and(|age| age < self.interval * 5 / 2)
    }
}

impl RecentHeartbeat {
    pub(super) async fn wait(&mut self) {
        let is_recent = |acknowledged: &Option<Acknowledged>| {
            acknowledged.is_some_and(|acknowledged| acknowledged.is_recent())
        };
        // The sender is dropped when the worker ends, which also ends the caller.
        let _ = self.acknowledged.wait_for(is_recent).await;
    }
}

/// Half of the lifetime of the access: enough time remains for many retries.
fn half_life(access: &OrdersAccess) -> Duration {
    match access {
        OrdersAccess::Http {} => Duration::from_hours(1),
        OrdersAccess::Sqs(credentials) => credentials.expires_at.since(now()) / 2,
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Whether a failed request may succeed later without a change: the control plane is away, overloaded or fails.
fn is_transient(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable { .. } | ApiError::Transport(_) => true,
        ApiError::Unexpected { status, .. } => *status >= 500 || *status == 429,
        ApiError::Problem(problem) => problem.status >= 500 || problem.code == "version-conflict",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a suspension, a partition or a clock step, a worker waits for a heartbeat before it launches anything.
    #[test]
    fn a_heartbeat_is_recent_for_two_and_a_half_intervals() {
        let interval = Duration::from_secs(15);
        let now = SystemTime::now();
        let is_recent = |at| Acknowledged { at, interval }.is_recent();
        assert!(is_recent(now) && is_recent(now - Duration::from_secs(30)));
        assert!(!is_recent(now - Duration::from_secs(38)));
        assert!(!is_recent(now + Duration::from_hours(1)), "the clock was set back");
    }

    #[tokio::test]
    async fn a_launch_waits_for_the_next_acknowledged_heartbeat() {
        let away = Acknowledged {
            at: SystemTime::now() - Duration::from_hours(8),
            interval: Duration::from_secs(15),
        };
        let acknowledged = watch::Sender::new(Some(away));
        let mut recent_heartbeat = RecentHeartbeat { acknowledged: acknowledged.subscribe() };
        let launch = tokio::spawn(async move { recent_heartbeat.wait().await });
        tokio::task::yield_now().await;
        assert!(!launch.is_finished());
        acknowledged.send_replace(Some(Acknowledged { at: SystemTime::now(), ..away }));
        launch.await.unwrap();
    }
}
