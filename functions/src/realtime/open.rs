//! `$connect` of the WebSocket API: a connection was opened.

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::function::requirements::OPEN;
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::keyring::VerifiedToken;
use pilothouse_store::{Connection, ConnectionId};

pub const FUNCTION: EventFunction = EventFunction::new(
    "stream-open",
    &[Subscription::web_socket("$connect", |ctx, event| {
        Box::pin(async move {
            let caller = event.caller.ok_or(Problem::Unauthenticated("connect with a token"))?;
            accept_connection(&ctx.app, &event.connection, caller).await
        })
    })],
    OPEN,
)
.summary("Accept a live stream connection");

/// The maximum lifetime of a connection in API Gateway.
pub const LIFETIME: Duration = Duration::from_hours(2);
/// The additional time that its record is kept, to tolerate clock differences.
const GRACE: Duration = Duration::from_mins(5);

/// Stores the owner of the connection, `caller`, which [`super::authorize`] determined. The connection does not follow anything
/// yet.
pub async fn accept_connection(app: &App, id: &ConnectionId, caller: VerifiedToken) -> Result<(), Problem> {
    let ends = app.now() + (LIFETIME + GRACE);
    let connection = Connection { owner: caller.owner, token_ends: caller.ends, ends, follows: None };
    Ok(app.store.open_connection(id, &connection).await?)
}
