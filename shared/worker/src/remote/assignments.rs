//! Receives assignments and processes them. Delivery is at least once: the worker recognizes runs that it knows.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_client::Client;
use pilothouse_domain::AgentSessionId;
use pilothouse_runtime::{AgentRuntime as _, StopMode};
use pilothouse_wire::worker::{Order, OrdersAccess, StopOrder, WorkerId};
use tokio::sync::watch;
use tokio::time::sleep;

use super::assignment_queue::{AssignmentQueue, Receipts};
use super::heartbeat::RecentHeartbeat;
use crate::Worker;

const RETRY: Duration = Duration::from_secs(1);

/// Processes assignments until the task is aborted.
pub(super) async fn process_assignments(
    client: Client,
    id: WorkerId,
    worker: Arc<Worker>,
    mut access: watch::Receiver<Option<OrdersAccess>>,
    mut recent_heartbeat: RecentHeartbeat,
) {
    let mut queue = None;
    let mut receipts = Receipts::default();
    loop {
        if queue.is_none() || access.has_changed().unwrap_or(false) {
            let latest = access.borrow_and_update().clone();
            queue = latest.and_then(|access| {
                AssignmentQueue::open(&access, &client, &id)
                    .inspect_err(|error| tracing::error!(%error, "failed to open the worker's queue"))
                    .ok()
            });
        }
        let Some(open_queue) = &queue else {
            if access.changed().await.is_err() {
                return;
            }
            continue;
        };
        match open_queue.receive(&mut receipts).await {
            Ok(assignments) => {
                let mut failed = HashSet::new();
                for assignment in assignments {
                    let done = process(&worker, &mut recent_heartbeat, &assignment.body, &mut failed).await;
                    if done { &mut receipts.done } else { &mut receipts.release }.push(assignment.receipt);
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "failed to receive assignments");
                // Assignments that were not acknowledged are delivered again and recognized.
                receipts = Receipts::default();
                sleep(RETRY).await;
            }
        }
    }
}

/// Processes an assignment. Returns whether it succeeded; later assignments of the same session wait for a failed one.
async fn process(
    worker: &Worker,
    recent_heartbeat: &mut RecentHeartbeat,
    body: &str,
    failed: &mut HashSet<AgentSessionId>,
) -> bool {
    let order: Order = match serde_json::from_str(body) {
        Ok(order) => order,
        Err(error) => {
            tracing::error!(%error, "dropping an unreadable assignment; this worker may be too old");
            return true;
        }
    };
    let (session, run) = match &order {
        Order::Launch { request } => (request.session_id, request.run_id),
        Order::Stop { session_id, run_id, .. } => (*session_id, *run_id),
    };
    if failed.contains(&session) {
        return false;
    }
    let outcome: Result<(), Box<dyn std::error::Error + Send + Sync>> = match order {
        Order::Launch { request } => {
            recent_heartbeat.wait().await;
            worker.launch(request).await.map_err(Into::into)
        }
        Order::Stop { session_id, run_id, mode } => {
            let mode = match mode {
                StopOrder::Terminate => StopMode::Terminate,
                StopOrder::Kill => StopMode::Kill,
            };
            worker.stop(session_id, run_id, mode).await.map_err(Into::into)
        }
    };
    if let Err(error) = &outcome {
        tracing::warn!(%run, error = &**error as &dyn std::error::Error, "failed to process an assignment; it will be delivered again");
        failed.insert(session);
    }
    outcome.is_ok()
}
