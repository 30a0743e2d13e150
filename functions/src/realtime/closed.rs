//! `$disconnect` of the WebSocket API: a connection was closed.

use pilothouse_app::App;
use pilothouse_app::function::requirements::CLOSED;
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_store::ConnectionId;

pub const FUNCTION: EventFunction = EventFunction::new(
    "stream-closed",
    &[Subscription::web_socket("$disconnect", |ctx, event| {
        Box::pin(async move { delete_connection(&ctx.app, &event.connection).await })
    })],
    CLOSED,
)
.summary("Delete a closed connection");

/// Deletes a connection. API Gateway calls this only at its best effort. The next push detects a connection that was missed, and
/// its record expires.
pub async fn delete_connection(app: &App, id: &ConnectionId) -> Result<(), Problem> {
    let attempt = async || {
        let Some(connection) = app.store.connection(id).await? else { return Ok(()) };
        Ok(app.store.close_connection(id, &connection).await?)
    };
    RetryPolicy::EVENT.retry(attempt).await
}
