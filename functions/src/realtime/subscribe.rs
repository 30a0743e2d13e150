//! `{"action":"subscribe","sessionId":…,"after":…}` on the WebSocket API: a connection follows a session.
//! `{"action":"subscribe","projectId":…,"after":…}`: it follows a project.
//! `{"action":"subscribe","topic":"decisions"}`: it follows the owner's inbox.

use pilothouse_api::decisions::InboxMessage;
use pilothouse_api::stream::{Subscribe, SubscribeTopic, SubscriptionResponse};
use pilothouse_app::App;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_app::function::requirements::SUBSCRIBE;
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::live_stream;
use pilothouse_app::unit_of_work::RetryPolicy;
use pilothouse_domain::UserId;
use pilothouse_store::{CommitError, ConnectionId, Followed, Watcher};

use crate::realtime::push_queue::{self, PushOf};

pub const FUNCTION: EventFunction = EventFunction::new(
    "stream-subscribe",
    &[Subscription::web_socket("subscribe", |ctx, event| {
        Box::pin(async move {
            subscribe_connection(&ctx.app, ctx.connections()?.as_ref(), &event.connection, &event.body).await
        })
    })],
    SUBSCRIBE,
)
.summary("Subscribe a connection to a session, a project or the inbox");

/// Subscribes the connection. For a session, triggers a push of everything after the cursor.
///
/// A problem with the request is sent to the client on the same connection. An error is returned to the host: API Gateway then
/// reports a failure, and the client reconnects.
pub async fn subscribe_connection(
    app: &App,
    connections: &dyn Connections,
    id: &ConnectionId,
    body: &str,
) -> Result<(), Problem> {
    let refused = match subscribe(app, connections, id, body).await {
        Err(problem) if problem.status().is_client_error() => problem,
        other => return other,
    };
    let response = SubscriptionResponse::Problem(refused.document());
    let text = serde_json::to_string(&response).map_err(Problem::internal)?;
    post(connections, id, &text).await
}

async fn subscribe(
    app: &App,
    connections: &dyn Connections,
    id: &ConnectionId,
    body: &str,
) -> Result<(), Problem> {
    let input: Subscribe = serde_json::from_str(body)
        .map_err(|error| Problem::invalid("body", format!("is not a subscription: {error}")))?;
    let attempt = async || {
        let connection = app.store.connection(id).await?;
        let connection =
            connection.ok_or(Problem::Unauthenticated("connect again; this connection is over"))?;
        let caller = &connection.value;
        if caller.token_ends <= app.now() {
            return Err(Problem::Unauthenticated("the token has ended; connect again with a new one"));
        }
        let Place { followed, after: (after, seen), project_cursor } =
            place_of(app, &caller.owner, &input).await?;
        let watcher = Watcher {
            owner: caller.owner.clone(),
            token_ends: caller.token_ends,
            ends: caller.ends,
            after,
            seen,
            project_cursor,
            caught_up: false,
        };
        let before = app.store.watcher(&followed, id).await?.map_or(0, |before| before.version);
        app.store.watch(id, &connection, &followed, &watcher, before).await?;
        Ok(followed)
    };
    let followed = RetryPolicy::EVENT.retry(attempt).await.map_err(|error| match error {
        // The client cannot resolve a conflict with pushes or other subscriptions.
        Problem::VersionConflict => Problem::internal(CommitError::Conflict),
        other => other,
    })?;
    match followed {
        // This push sends the entries committed so far. Each later entry triggers a push of its own.
        Followed::Session(session) => push_queue::send(&*app.broker, &session.into()).await,
        // The same, with the state first if the client has no cursor.
        Followed::Project(project_id) => {
            let text =
                serde_json::to_string(&SubscriptionResponse::Subscribed {}).map_err(Problem::internal)?;
            post(connections, id, &text).await?;
            push_queue::send(&*app.broker, &PushOf::Project { project_id, source: None }).await
        }
        // Each later change triggers a push. The client lists the decisions of before.
        Followed::Inbox(_) => {
            let text = serde_json::to_string(&InboxMessage::CaughtUp {}).map_err(Problem::internal)?;
            post(connections, id, &text).await
        }
    }
}

/// What to follow, and the position in its stream.
struct Place {
    followed: Followed,
    after: (u64, usize),
    project_cursor: Option<String>,
}

async fn place_of(app: &App, owner: &UserId, input: &Subscribe) -> Result<Place, Problem> {
    let Subscribe { action: _, session_id, project_id, topic, after } = input;
    let mut place = Place { followed: Followed::Inbox(owner.clone()), after: (0, 0), project_cursor: None };
    match (session_id, project_id, topic) {
        (Some(session), None, None) => {
            let session = app.session_of(owner, *session).await?;
            place.after = live_stream::place(after.as_deref(), &session)?;
            place.followed = Followed::Session(session.id());
        }
        (None, Some(project), None) => {
            // An unknown cursor is not kept, so that the push sends the state.
            let (_, state) = app.project_stream(owner, *project, after.as_deref()).await?;
            place.project_cursor = after.clone().filter(|_| state.is_none());
            place.followed = Followed::Project(*project);
        }
        (None, None, Some(SubscribeTopic::Decisions)) if after.is_none() => {}
        (None, None, Some(SubscribeTopic::Decisions)) => {
            return Err(Problem::invalid("after", "the inbox has no cursors"));
        }
        _ => {
            return Err(Problem::invalid("body", "needs one of `sessionId`, `projectId` and `topic`"));
        }
    }
    Ok(place)
}

async fn post(connections: &dyn Connections, id: &ConnectionId, text: &str) -> Result<(), Problem> {
    match connections.post(id, text).await {
        Ok(()) | Err(PostError::Gone) => Ok(()),
        Err(failed) => Err(Problem::internal(failed)),
    }
}
