//! `$connect` of the WebSocket API: a connection begins.

use std::time::Duration;

use pilothouse_store::{Connection, ConnectionId};

use crate::app::App;
use crate::edge::Problem;
use crate::edge::auth::Verified;

/// How long API Gateway keeps a connection.
pub const LIFETIME: Duration = Duration::from_hours(2);
/// How much longer it is remembered, so that no clock ends it early.
const GRACE: Duration = Duration::from_mins(5);

/// Remembers whose the connection is; `caller` is what [`super::authorize`] found. Nothing is followed yet.
pub async fn handle(app: &App, id: &ConnectionId, caller: Verified) -> Result<(), Problem> {
    let ends = app.now() + (LIFETIME + GRACE);
    let connection = Connection { owner: caller.owner, token_ends: caller.ends, ends, session: None };
    Ok(app.store.open_connection(id, &connection).await?)
}
