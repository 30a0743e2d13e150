//! Taking orders and carrying them out, each until it is done: at least once, as the worker knows its runs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_domain::AgentSessionId;
use pilothouse_runtime::{AgentRuntime as _, StopMode, Worker};
use pilothouse_wire::worker::{Order, OrdersAccess, StopOrder, WorkerId};
use tokio::sync::watch;
use tokio::time::sleep;

use super::source::{Settled, Source};
use crate::client::Client;

/// How long to wait when the queue fails.
const REST: Duration = Duration::from_secs(1);

/// Carries out orders for ever.
pub(super) async fn carry_out(
    client: Client,
    id: WorkerId,
    worker: Arc<Worker>,
    mut access: watch::Receiver<Option<OrdersAccess>>,
) {
    let mut source = None;
    let mut settled = Settled::default();
    loop {
        if source.is_none() || access.has_changed().unwrap_or(false) {
            let latest = access.borrow_and_update().clone();
            source = latest.and_then(|access| {
                Source::of(&access, &client, &id)
                    .inspect_err(|error| tracing::error!(%error, "the worker cannot reach its queue"))
                    .ok()
            });
        }
        let Some(queue) = &source else {
            if access.changed().await.is_err() {
                return;
            }
            continue;
        };
        match queue.take(&mut settled).await {
            Ok(orders) => {
                let mut failed = HashSet::new();
                for order in orders {
                    let done = obey(&worker, &order.body, &mut failed).await;
                    if done { &mut settled.done } else { &mut settled.again }.push(order.receipt);
                }
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no orders could be taken");
                // Whatever could not be settled comes again by itself, and is done already.
                settled = Settled::default();
                sleep(REST).await;
            }
        }
    }
}

/// Whether an order is carried out. What follows one that is not, of the same session, waits for it.
async fn obey(worker: &Worker, body: &str, failed: &mut HashSet<AgentSessionId>) -> bool {
    let order: Order = match serde_json::from_str(body) {
        Ok(order) => order,
        Err(error) => {
            tracing::error!(%error, "an order that cannot be read is dropped; is this worker too old?");
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
        Order::Launch { request } => worker.launch(request).await.map_err(Into::into),
        Order::Stop { session_id, run_id, mode } => {
            let mode = match mode {
                StopOrder::Terminate => StopMode::Terminate,
                StopOrder::Kill => StopMode::Kill,
            };
            worker.stop(session_id, run_id, mode).await.map_err(Into::into)
        }
    };
    if let Err(error) = &outcome {
        tracing::warn!(%run, error = &**error as &dyn std::error::Error, "an order is to come again");
        failed.insert(session);
    }
    outcome.is_ok()
}
