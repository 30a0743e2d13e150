//! Posts new journal entries of a session to the connections that follow it.
//!
//! The pushes queue has one group per session, so only one push per session runs at a time and a connection receives its messages
//! in order. A cursor advances after its messages were posted: an interrupted push posts messages again but loses none.
//! Connections are served concurrently, each for a limited time; a connection with more to receive continues with the next push.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_api::stream::{StreamBody, StreamMessage, cursor, parse_cursor};
use pilothouse_app::App;
use pilothouse_app::batch::BatchOutcome;
use pilothouse_app::connections::{Connections, PostError};
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::{PUSH, PUSHES};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::live_stream::messages;
use pilothouse_broker::Received;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId};
use pilothouse_store::{CommitError, ConnectionId, Loaded, StoreError, Watcher};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::frame::frame;
use crate::realtime::push_queue::{self, PushOf};

pub const FUNCTION: EventFunction = EventFunction::new(
    "push",
    &[Subscription::queue(PUSHES, |ctx, batch| {
        Box::pin(async move { Ok(process(&ctx.app, ctx.connections()?, batch).await) })
    })],
    PUSH,
)
.summary("Push new journal entries to live stream connections");

/// The most entries that one push sends to a connection.
const READ: usize = 200;
/// The time that one push spends on one connection, unless a single message takes longer.
const TURN: Duration = Duration::from_secs(2);
/// The timeout of a call to API Gateway. A call that times out is not repeated, because it would delay other connections.
const CALL: Duration = Duration::from_secs(3);
/// The maximum number of attempts to post a message that is refused.
const TRIES: u32 = 3;
/// Doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(200);
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Processes a batch of the pushes queue: one push for each session in it.
pub async fn process(app: &App, connections: &Arc<dyn Connections>, batch: Vec<Received>) -> BatchOutcome {
    let mut outcome = BatchOutcome::default();
    let mut sessions: BTreeMap<AgentSessionId, Vec<_>> = BTreeMap::new();
    for message in batch {
        match serde_json::from_str::<PushOf>(&message.body) {
            Ok(push) => sessions.entry(push.session_id).or_default().push(message.receipt),
            Err(error) => {
                tracing::warn!(group = %message.group, %error, "failed to parse a message of the pushes queue");
                outcome.done.push(message.receipt);
            }
        }
    }
    let mut pushes = JoinSet::new();
    for session in sessions.keys().copied() {
        let (app, connections) = (app.clone(), Arc::clone(connections));
        pushes.spawn(async move { (session, push(&app, &connections, session).await) });
    }
    let mut done = BTreeSet::new();
    while let Some(pushed) = pushes.join_next().await {
        match pushed {
            Ok((session, Ok(()))) => drop(done.insert(session)),
            Ok((session, Err(problem))) => {
                tracing::warn!(%session, cause = %error_chain(&problem), "a push failed");
            }
            Err(panicked) => tracing::error!(error = %panicked, "a push failed"),
        }
    }
    for (session, receipts) in sessions {
        if done.contains(&session) {
            outcome.done.extend(receipts);
        } else {
            outcome.retry.push((receipts, RETRY_DELAY));
        }
    }
    outcome
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// The connection has received everything, is gone, or was closed.
    Whole,
    /// The connection has more entries to receive.
    InPart,
}

#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("a connection can neither be posted to nor closed")]
    Stuck(#[source] PostError),
    #[error("a message cannot be written")]
    Unwritable(#[from] serde_json::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Move(#[from] CommitError),
    #[error("the task that served a connection failed")]
    CutShort(#[from] tokio::task::JoinError),
}

/// Posts new journal entries to every connection that follows a session. After success each of them has received everything that
/// was committed before the start, or another push is queued.
pub async fn push(
    app: &App,
    connections: &Arc<dyn Connections>,
    session: AgentSessionId,
) -> Result<(), Problem> {
    let watchers = app.store.watchers(session).await?;
    if watchers.is_empty() {
        return Ok(());
    }
    let current = app.store.session(session).await?.map(Arc::new);
    let mut pages = BTreeMap::new();
    let mut serving = JoinSet::new();
    for (id, watcher) in watchers {
        let pusher = ConnectionPusher { app: app.clone(), connections: Arc::clone(connections), session, id };
        let may = |current: &&Arc<AgentSession>| {
            *current.owner_id() == watcher.value.owner && app.now() < watcher.value.token_ends
        };
        let Some(current) = current.as_ref().filter(may) else {
            serving.spawn(async move { pusher.dismiss("it may no longer follow this session").await });
            continue;
        };
        // Connections with the same cursor share one read.
        let page = match pages.entry(watcher.value.after) {
            Entry::Occupied(page) => Arc::clone(page.get()),
            Entry::Vacant(slot) => {
                let read = app.store.journal(session, watcher.value.after, READ).await?;
                Arc::clone(slot.insert(Arc::new(read)))
            }
        };
        let current = Arc::clone(current);
        serving.spawn(async move { pusher.serve(watcher, &current, &page).await });
    }
    let (mut more, mut failed) = (false, None);
    while let Some(served) = serving.join_next().await {
        match served.map_err(ServeError::from).and_then(|served| served) {
            Ok(served) => more |= served == Served::InPart,
            Err(error) => failed = Some(error),
        }
    }
    // A retry serves the failed connections and those with more entries.
    if let Some(error) = failed {
        return Err(Problem::internal(error));
    }
    if more { push_queue::send(&*app.broker, session).await } else { Ok(()) }
}

struct ConnectionPusher {
    app: App,
    connections: Arc<dyn Connections>,
    session: AgentSessionId,
    id: ConnectionId,
}

enum PushStop {
    Turn,
    Post(PostError),
}

impl ConnectionPusher {
    /// Posts the entries of `page` to a connection, then advances its cursor.
    async fn serve(
        &self,
        mut watcher: Loaded<Watcher>,
        current: &AgentSession,
        page: &[JournalEntry],
    ) -> Result<Served, ServeError> {
        let before = watcher.value.clone();
        let halted = self.post_page(&mut watcher.value, current, page).await?;
        if watcher.value != before {
            match self.app.store.move_watcher(self.session, &self.id, &watcher).await {
                // The connection was closed, or subscribed again, which triggers another push.
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match halted {
            None if page.len() < READ => Ok(Served::Whole),
            None | Some(PushStop::Turn) => Ok(Served::InPart),
            Some(PushStop::Post(PostError::Gone)) => self.forget().await,
            Some(PushStop::Post(error)) => {
                tracing::warn!(session = %self.session, cause = %error_chain(&error), "failed to post to a connection");
                // The client reconnects and resumes from its cursor.
                self.dismiss("it accepts no messages").await
            }
        }
    }

    /// Posts the messages of `page`, and reports when the connection has caught up. Advances `at` with each message.
    async fn post_page(
        &self,
        at: &mut Watcher,
        current: &AgentSession,
        page: &[JournalEntry],
    ) -> Result<Option<PushStop>, ServeError> {
        let began = Instant::now();
        for entry in page {
            // `seen` counts messages of the entry after the cursor. That entry may have expired.
            let seen = if entry.sequence == at.after + 1 { at.seen } else { 0 };
            for message in messages(entry, current).into_iter().skip(seen) {
                if let Err(error) = self.post(&message).await? {
                    return Ok(Some(PushStop::Post(error)));
                }
                if let Some(place) = parse_cursor(&message.cursor) {
                    (at.after, at.seen) = place;
                }
                if began.elapsed() >= TURN {
                    return Ok(Some(PushStop::Turn));
                }
            }
            (at.after, at.seen) = (entry.sequence, 0);
        }
        if page.len() < READ && !at.caught_up {
            let caught_up = StreamMessage { cursor: cursor(at.after), body: StreamBody::CaughtUp {} };
            if let Err(error) = self.post(&caught_up).await? {
                return Ok(Some(PushStop::Post(error)));
            }
            at.caught_up = true;
        }
        Ok(None)
    }

    async fn post(&self, message: &StreamMessage) -> Result<Result<(), PostError>, ServeError> {
        let Some(text) = frame(message)? else { return Ok(Ok(())) };
        let mut pause = PAUSE;
        for attempt in 1.. {
            match in_time(self.connections.post(&self.id, &text)).await {
                Err(PostError::Failed(cause)) if attempt < TRIES && !cause.is::<Elapsed>() => {
                    tokio::time::sleep(pause).await;
                }
                done => return Ok(done),
            }
            pause *= 2;
        }
        Ok(Ok(()))
    }

    /// Closes the connection and deletes its record.
    async fn dismiss(&self, why: &str) -> Result<Served, ServeError> {
        tracing::info!(session = %self.session, why, "a connection is closed");
        match in_time(self.connections.close(&self.id)).await {
            Ok(()) | Err(PostError::Gone) => self.forget().await,
            Err(error) => Err(ServeError::Stuck(error)),
        }
    }

    async fn forget(&self) -> Result<Served, ServeError> {
        self.app.store.remove_watcher(self.session, &self.id).await?;
        Ok(Served::Whole)
    }
}

/// Fails a call that takes too long.
async fn in_time(call: impl Future<Output = Result<(), PostError>>) -> Result<(), PostError> {
    timeout(CALL, call).await.unwrap_or_else(|late| Err(PostError::Failed(Box::new(late))))
}
