//! `POST /api/workers/{id}/orders`: receives the orders of a worker, on servers whose workers have no SQS queue.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Problem;
use pilothouse_app::http::body::waiting_time;
use pilothouse_app::queues;
use pilothouse_broker::{MAX_BATCH, MAX_WAIT, QueueError, Receipt};
use pilothouse_wire::worker::{TakeOrders, TakenOrder, TakenOrders};

use super::request::{WireJson, WorkerCaller, no_worker};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("workers-orders", Verb::Post, "/api/workers/{id}/orders", |verb| {
        verb.route(receive_orders)
    })
    .owner()
    .summary("Receive the orders of a worker")
    .input::<TakeOrders>()
    .output::<TakenOrders>(&[200])
    .requires(EMBEDDED);

/// The delay before a released order is delivered again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Deletes the orders in `done`, releases those in `again`, and responds with 200 and the available orders.
async fn receive_orders(
    State(app): State<App>,
    WorkerCaller(key): WorkerCaller,
    WireJson(ask): WireJson<TakeOrders>,
) -> Result<Json<TakenOrders>, Problem> {
    if app.fleet()?.vendor.is_some() {
        return Err(Problem::NotFound("workers here receive orders from their own SQS queues".to_owned()));
    }
    if ask.done.len() > MAX_BATCH || ask.again.len() > MAX_BATCH {
        return Err(Problem::invalid("done", format!("must have at most {MAX_BATCH} items")));
    }
    let wait = waiting_time("waitSeconds", ask.wait_seconds, MAX_WAIT)?;
    let queue = queues::worker(&key);
    let failed = |error| match error {
        QueueError::NoSuchQueue(_) => no_worker(),
        error => Problem::internal(error),
    };
    let receipts = |ids: Vec<String>| ids.into_iter().map(Receipt).collect::<Vec<_>>();
    app.broker.delete(&queue, &receipts(ask.done)).await.map_err(failed)?;
    app.broker.release(&queue, &receipts(ask.again), RETRY_DELAY).await.map_err(failed)?;
    let received = app.broker.receive(&queue, MAX_BATCH, wait).await.map_err(failed)?;
    let orders = received.into_iter().map(|m| TakenOrder { receipt: m.receipt.0, body: m.body }).collect();
    Ok(Json(TakenOrders { orders }))
}
