//! `$disconnect` of the WebSocket API: a connection is over.

use pilothouse_store::{CommitError, ConnectionId};

use crate::app::App;
use crate::edge::Problem;

/// How often a change that came first is taken into account.
const TRIES: u32 = 5;

/// Forgets a connection. API Gateway calls this at its best effort only: a connection that it does not tell of is found
/// to be gone by the next push, and forgotten at its end at the latest.
pub async fn handle(app: &App, id: &ConnectionId) -> Result<(), Problem> {
    for _ in 0..TRIES {
        let Some(connection) = app.store.connection(id).await? else { return Ok(()) };
        match app.store.close_connection(id, &connection).await {
            Ok(()) => return Ok(()),
            Err(CommitError::Conflict) => {}
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::VersionConflict)
}
