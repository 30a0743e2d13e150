//! `{"action":"subscribe","sessionId":…,"after":…}` on the WebSocket API: a connection follows a session.

use pilothouse_store::{CommitError, ConnectionId, Store, Watcher};

use super::connections::{Connections, PostError};
use super::{place, wake};
use crate::api::stream::{Subscribe, SubscriptionAnswer};
use crate::app::App;
use crate::edge::Problem;

/// How often a push, or another subscription, may come first.
const TRIES: u32 = 8;

/// Lets the connection follow a session, and wakes a push that posts everything after the cursor.
///
/// What is wrong with the request is told to the client, as a problem on the same connection. An error is for the
/// caller: API Gateway then tells the client that something failed, and the client connects again.
pub async fn handle(
    app: &App,
    connections: &dyn Connections,
    id: &ConnectionId,
    body: &str,
) -> Result<(), Problem> {
    let refused = match subscribe(app, id, body).await {
        Err(problem) if problem.status().is_client_error() => problem,
        other => return other,
    };
    let answer = SubscriptionAnswer::Problem(refused.document());
    let text = serde_json::to_string(&answer).map_err(Problem::internal)?;
    match connections.post(id, &text).await {
        Ok(()) | Err(PostError::Gone) => Ok(()),
        Err(failed) => Err(Problem::internal(failed)),
    }
}

async fn subscribe(app: &App, id: &ConnectionId, body: &str) -> Result<(), Problem> {
    let input: Subscribe = serde_json::from_str(body)
        .map_err(|error| Problem::invalid("body", format!("is not a subscription: {error}")))?;
    for attempt in 1..=TRIES {
        let connection = app.store.connection(id).await?;
        let connection =
            connection.ok_or(Problem::Unauthenticated("connect again; this connection is over"))?;
        let caller = &connection.value;
        if caller.token_ends <= app.now() {
            return Err(Problem::Unauthenticated("the token has ended; connect again with a new one"));
        }
        let session = app.session_of(&caller.owner, input.session_id).await?;
        let (after, seen) = place(input.after.as_deref(), &session)?;
        let watcher = Watcher {
            owner: caller.owner.clone(),
            token_ends: caller.token_ends,
            ends: caller.ends,
            after,
            seen,
            caught_up: false,
        };
        let before = app.store.watcher(session.id(), id).await?.map_or(0, |before| before.version);
        match app.store.watch(id, &connection, session.id(), &watcher, before).await {
            // What was committed before this is read by the push that is woken here; what comes after wakes its own.
            Ok(()) => return wake::send(&*app.broker, session.id()).await,
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::internal(CommitError::Conflict))
}
