//! Posts what is new in a session's journal to the connections that watch it.
//!
//! The queue of pushes has a group a session, so that one push works on a session at a time, and a connection gets its
//! messages in order. A cursor is moved after its messages were posted: what is cut short is posted again, and lost is
//! nothing. Connections are served beside each other, each for a limited time; who is far behind goes on with the next
//! push.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;
use std::time::Duration;

use pilothouse_broker::Received;
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId};
use pilothouse_store::{CommitError, ConnectionId, Loaded, StoreError, Watcher};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::connections::{Connections, PostError};
use super::frame::frame;
use super::messages;
use super::wake::{self, PushOf};
use crate::api::stream::{StreamBody, StreamMessage, cursor, parse_cursor};
use crate::app::App;
use crate::edge::Problem;
use crate::intake::chain;
use crate::queues::Settlement;

/// Entries that a connection gets by one push, at most.
const READ: usize = 200;
/// How long one push serves one connection, unless a single message takes longer.
const TURN: Duration = Duration::from_secs(2);
/// How long one call to API Gateway may take. One that takes longer is not repeated: it would hold up others.
const CALL: Duration = Duration::from_secs(3);
/// How often a message is posted that is refused.
const TRIES: u32 = 3;
/// The pause before the second try; it doubles.
const PAUSE: Duration = Duration::from_millis(200);
/// The pause before a push that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Takes a batch of the queue of pushes: one push for each session that is named in it.
pub async fn process(app: &App, connections: &Arc<dyn Connections>, batch: Vec<Received>) -> Settlement {
    let mut settlement = Settlement::default();
    let mut sessions: BTreeMap<AgentSessionId, Vec<_>> = BTreeMap::new();
    for message in batch {
        match serde_json::from_str::<PushOf>(&message.body) {
            Ok(push) => sessions.entry(push.session_id).or_default().push(message.receipt),
            Err(error) => {
                tracing::warn!(group = %message.group, %error, "a message of the queue of pushes is not understood");
                settlement.done.push(message.receipt);
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
                tracing::warn!(%session, cause = %chain(&problem), "a push failed");
            }
            Err(panicked) => tracing::error!(error = %panicked, "a push failed"),
        }
    }
    for (session, receipts) in sessions {
        if done.contains(&session) {
            settlement.done.extend(receipts);
        } else {
            settlement.again.push((receipts, AGAIN));
        }
    }
    settlement
}

/// How far a connection was served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Served {
    /// It has everything, is gone, or was closed.
    Whole,
    /// There is more for it.
    InPart,
}

/// Why a connection could not be served.
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
    #[error("serving a connection was cut short")]
    CutShort(#[from] tokio::task::JoinError),
}

/// Posts what is new in a session's journal to every connection that watches it. When it ends well, each of them has
/// everything that was committed before it began, or another push is on its way.
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
        let desk = Desk { app: app.clone(), connections: Arc::clone(connections), session, id };
        let may = |current: &&Arc<AgentSession>| {
            *current.owner_id() == watcher.value.owner && app.now() < watcher.value.token_ends
        };
        let Some(current) = current.as_ref().filter(may) else {
            serving.spawn(async move { desk.dismiss("it may not watch this session any more").await });
            continue;
        };
        // Those that are equally far share what is read.
        let page = match pages.entry(watcher.value.after) {
            Entry::Occupied(page) => Arc::clone(page.get()),
            Entry::Vacant(slot) => {
                let read = app.store.journal(session, watcher.value.after, READ).await?;
                Arc::clone(slot.insert(Arc::new(read)))
            }
        };
        let current = Arc::clone(current);
        serving.spawn(async move { desk.serve(watcher, &current, &page).await });
    }
    let (mut more, mut failed) = (false, None);
    while let Some(served) = serving.join_next().await {
        match served.map_err(ServeError::from).and_then(|served| served) {
            Ok(served) => more |= served == Served::InPart,
            Err(error) => failed = Some(error),
        }
    }
    // What failed comes again, and with it what there is more.
    if let Some(error) = failed {
        return Err(Problem::internal(error));
    }
    if more { wake::send(&*app.broker, session).await } else { Ok(()) }
}

/// Serves one connection.
struct Desk {
    app: App,
    connections: Arc<dyn Connections>,
    session: AgentSessionId,
    id: ConnectionId,
}

/// Posting to a connection came to an end.
enum Halt {
    /// Its time is over.
    Turn,
    /// It is not reached.
    Post(PostError),
}

impl Desk {
    /// Posts what `page` holds for a watcher, then moves its cursor.
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
                // Closed, or subscribed anew, which wakes a push of its own.
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match halted {
            None if page.len() < READ => Ok(Served::Whole),
            None | Some(Halt::Turn) => Ok(Served::InPart),
            Some(Halt::Post(PostError::Gone)) => self.forget().await,
            Some(Halt::Post(error)) => {
                tracing::warn!(session = %self.session, cause = %chain(&error), "a connection takes nothing");
                // Its client connects again and goes on with its cursor.
                self.dismiss("it takes nothing").await
            }
        }
    }

    /// Posts the messages of `page`, and tells when the connection has caught up. `at` follows what was posted.
    async fn post_page(
        &self,
        at: &mut Watcher,
        current: &AgentSession,
        page: &[JournalEntry],
    ) -> Result<Option<Halt>, ServeError> {
        let began = Instant::now();
        for entry in page {
            // What was seen is of the entry that follows the cursor; that one may have expired.
            let seen = if entry.sequence == at.after + 1 { at.seen } else { 0 };
            for message in messages(entry, current).into_iter().skip(seen) {
                if let Err(error) = self.post(&message).await? {
                    return Ok(Some(Halt::Post(error)));
                }
                if let Some(place) = parse_cursor(&message.cursor) {
                    (at.after, at.seen) = place;
                }
                if began.elapsed() >= TURN {
                    return Ok(Some(Halt::Turn));
                }
            }
            (at.after, at.seen) = (entry.sequence, 0);
        }
        if page.len() < READ && !at.caught_up {
            let told = StreamMessage { cursor: cursor(at.after), body: StreamBody::CaughtUp {} };
            if let Err(error) = self.post(&told).await? {
                return Ok(Some(Halt::Post(error)));
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

    /// Closes the connection and forgets it.
    async fn dismiss(&self, why: &str) -> Result<Served, ServeError> {
        tracing::info!(session = %self.session, why, "a connection is closed");
        match in_time(self.connections.close(&self.id)).await {
            Ok(()) | Err(PostError::Gone) => self.forget().await,
            Err(error) => Err(ServeError::Stuck(error)),
        }
    }

    async fn forget(&self) -> Result<Served, ServeError> {
        self.app.store.drop_watcher(self.session, &self.id).await?;
        Ok(Served::Whole)
    }
}

/// A call that takes too long has failed.
async fn in_time(call: impl Future<Output = Result<(), PostError>>) -> Result<(), PostError> {
    timeout(CALL, call).await.unwrap_or_else(|late| Err(PostError::Failed(Box::new(late))))
}
