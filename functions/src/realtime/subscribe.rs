//! `{"action":"subscribe","sessionId":…,"after":…}` on the WebSocket API: a connection follows a session.

use pilothouse_api::stream::{Subscribe, SubscriptionAnswer};
use pilothouse_app::App;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_app::function::requirements::SUBSCRIBE;
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::live_stream::place;
use pilothouse_store::{CommitError, ConnectionId, Store, Watcher};

use crate::realtime::push_queue;

pub const FUNCTION: EventFunction = EventFunction::new(
    "stream-subscribe",
    &[Subscription::web_socket("subscribe", |ctx, event| {
        Box::pin(async move {
            handle(&ctx.app, ctx.connections()?.as_ref(), &event.connection, &event.body).await
        })
    })],
    SUBSCRIBE,
)
.summary("Subscribe a connection to a session");

/// The maximum number of attempts after a conflict with a push or another subscription.
const TRIES: u32 = 8;

/// Subscribes the connection to a session and triggers a push of everything after the cursor.
///
/// A problem with the request is sent to the client on the same connection. An error is returned to the host: API Gateway then
/// reports a failure, and the client reconnects.
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
            // This push sends the entries committed so far. Each later entry triggers a push of its own.
            Ok(()) => return push_queue::send(&*app.broker, session.id()).await,
            Err(CommitError::Conflict) => {
                tokio::time::sleep(Store::backoff(attempt, rand::random())).await;
            }
            Err(other) => return Err(other.into()),
        }
    }
    Err(Problem::internal(CommitError::Conflict))
}
