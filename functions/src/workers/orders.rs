//! `POST /api/workers/{id}/orders`: a worker takes its orders where there is no SQS that it could take them from.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use pilothouse_broker::{MAX_BATCH, MAX_WAIT, QueueError, Receipt};
use pilothouse_wire::worker::{TakeOrders, TakenOrder, TakenOrders};

use super::request::{Known, Sent, no_worker};
use crate::app::App;
use crate::edge::Problem;
use crate::queues;

/// After how long an order that could not be carried out comes again.
const AGAIN: Duration = Duration::from_secs(1);

/// 200 with what there is, after what was done is removed.
pub async fn handle(
    State(app): State<App>,
    Known(key): Known,
    Sent(ask): Sent<TakeOrders>,
) -> Result<Json<TakenOrders>, Problem> {
    if app.fleet()?.vendor.is_some() {
        return Err(Problem::NotFound("orders are on the worker's own queue".to_owned()));
    }
    if ask.done.len() > MAX_BATCH || ask.again.len() > MAX_BATCH {
        return Err(Problem::invalid("done", format!("must have at most {MAX_BATCH}")));
    }
    let queue = queues::worker(&key);
    let failed = |error| match error {
        QueueError::NoSuchQueue(_) => no_worker(),
        error => Problem::internal(error),
    };
    let receipts = |ids: Vec<String>| ids.into_iter().map(Receipt).collect::<Vec<_>>();
    app.broker.delete(&queue, &receipts(ask.done)).await.map_err(failed)?;
    app.broker.release(&queue, &receipts(ask.again), AGAIN).await.map_err(failed)?;
    let wait = Duration::try_from_secs_f64(ask.wait_seconds).unwrap_or_default().min(MAX_WAIT);
    let received = app.broker.receive(&queue, MAX_BATCH, wait).await.map_err(failed)?;
    let orders = received.into_iter().map(|m| TakenOrder { receipt: m.receipt.0, body: m.body }).collect();
    Ok(Json(TakenOrders { orders }))
}
