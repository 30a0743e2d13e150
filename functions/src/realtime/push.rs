//! Posts new journal entries of a session to the connections that follow it.
//!
//! The pushes queue has one group per session, so only one push per session runs at a time and a connection receives its messages
//! in order. A cursor advances after its messages were posted: an interrupted push posts messages again but loses none.
//! Connections are served concurrently, each for a limited time; a connection with more to receive continues with the next push.

use std::collections::HashMap;
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
use pilothouse_broker::{Receipt, Received};
use pilothouse_domain::journal::JournalEntry;
use pilothouse_domain::{AgentSession, AgentSessionId};
use pilothouse_store::{CommitError, Followed, Loaded, Watcher};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::frame::frame;
use super::push_decisions::push_decision;
use super::push_projects::push_project;
use super::pusher::{PushError, PushTarget, Served, TURN};
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
const RETRY_DELAY: Duration = Duration::from_secs(2);

/// Processes a batch of the pushes queue: one push for each change that is announced in it.
///
/// Pushes of one group serve the same connections. They run one after the other, because each begins at the cursor of the one before:
/// a push for a new agent of a project finds nothing until the push for the project has added the agent.
pub async fn process(app: &App, connections: &Arc<dyn Connections>, batch: Vec<Received>) -> BatchOutcome {
    let mut outcome = BatchOutcome::default();
    let mut groups: BTreeMap<String, Vec<Announced>> = BTreeMap::new();
    for message in batch {
        match serde_json::from_str::<PushOf>(&message.body) {
            Ok(of) => {
                let group = groups.entry(of.group()).or_default();
                match group.iter_mut().find(|announced| announced.of == of) {
                    Some(announced) => announced.receipts.push(message.receipt),
                    None => group.push(Announced { of, receipts: vec![message.receipt] }),
                }
            }
            Err(error) => {
                tracing::warn!(group = %message.group, %error, "failed to parse a message of the pushes queue");
                outcome.done.push(message.receipt);
            }
        }
    }
    let mut under_way = JoinSet::new();
    let mut receipts_of = HashMap::new();
    for group in groups.into_values() {
        let (app, connections) = (app.clone(), Arc::clone(connections));
        let all: Vec<Receipt> = group.iter().flat_map(|announced| announced.receipts.clone()).collect();
        let task = under_way.spawn(async move {
            let mut outcome = BatchOutcome::default();
            for Announced { of, receipts } in group {
                match push_of(&app, &connections, &of).await {
                    Ok(()) => outcome.done.extend(receipts),
                    Err(problem) => {
                        tracing::warn!(?of, cause = %error_chain(&problem), "a push failed");
                        outcome.retry.push((receipts, RETRY_DELAY));
                    }
                }
            }
            outcome
        });
        receipts_of.insert(task.id(), all);
    }
    while let Some(pushed) = under_way.join_next().await {
        match pushed {
            Ok(pushed) => {
                outcome.done.extend(pushed.done);
                outcome.retry.extend(pushed.retry);
            }
            Err(panicked) => {
                tracing::error!(error = %panicked, "a push failed");
                // The host deletes messages that are not to be retried.
                let receipts = receipts_of.remove(&panicked.id()).unwrap_or_default();
                outcome.retry.push((receipts, RETRY_DELAY));
            }
        }
    }
    outcome
}

/// A push with the messages that announce it.
struct Announced {
    of: PushOf,
    receipts: Vec<Receipt>,
}

async fn push_of(app: &App, connections: &Arc<dyn Connections>, of: &PushOf) -> Result<(), Problem> {
    match of {
        PushOf::Session { session_id } => push(app, connections, *session_id).await,
        PushOf::Decision { owner_id, decision_id } => {
            push_decision(app, connections, owner_id, *decision_id).await
        }
        PushOf::Project { project_id, source } => push_project(app, connections, *project_id, *source).await,
    }
}

/// Posts new journal entries to every connection that follows a session. After success each of them has received everything that
/// was committed before the start, or another push is queued.
pub async fn push(
    app: &App,
    connections: &Arc<dyn Connections>,
    session: AgentSessionId,
) -> Result<(), Problem> {
    let followed = Followed::Session(session);
    let watchers = app.store.watchers(&followed).await?;
    if watchers.is_empty() {
        return Ok(());
    }
    let current = app.store.session(session).await?.map(Arc::new);
    let mut pages = BTreeMap::new();
    let mut serving = JoinSet::new();
    for (id, watcher) in watchers {
        let connection = PushTarget::new(app, connections, &followed, id);
        let may = |current: &&Arc<AgentSession>| {
            *current.owner_id() == watcher.value.owner && app.now() < watcher.value.token_ends
        };
        let Some(current) = current.as_ref().filter(may) else {
            serving.spawn(async move {
                connection.dismiss("it may no longer follow this session").await.map(|()| Served::Whole)
            });
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
        let pusher = SessionPusher { app: app.clone(), followed: followed.clone(), connection };
        serving.spawn(async move { pusher.serve(watcher, &current, &page).await });
    }
    let (mut more, mut failed) = (false, None);
    while let Some(served) = serving.join_next().await {
        match served.map_err(PushError::from).and_then(|served| served) {
            Ok(served) => more |= served == Served::InPart,
            Err(error) => failed = Some(error),
        }
    }
    // A retry serves the failed connections and those with more entries.
    if let Some(error) = failed {
        return Err(Problem::internal(error));
    }
    if more { push_queue::send(&*app.broker, &session.into()).await } else { Ok(()) }
}

struct SessionPusher {
    app: App,
    followed: Followed,
    connection: PushTarget,
}

enum PushStop {
    Turn,
    Post(PostError),
}

impl SessionPusher {
    /// Posts the entries of `page` to a connection, then advances its cursor.
    async fn serve(
        &self,
        mut watcher: Loaded<Watcher>,
        current: &AgentSession,
        page: &[JournalEntry],
    ) -> Result<Served, PushError> {
        let before = watcher.value.clone();
        let halted = self.post_page(&mut watcher.value, current, page).await?;
        if watcher.value != before {
            match self.app.store.move_watcher(&self.followed, self.connection.id(), &watcher).await {
                // The connection was closed, or subscribed again, which triggers another push.
                Ok(()) | Err(CommitError::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match halted {
            None if page.len() < READ => Ok(Served::Whole),
            None | Some(PushStop::Turn) => Ok(Served::InPart),
            Some(PushStop::Post(error)) => self.connection.end(error).await.map(|()| Served::Whole),
        }
    }

    /// Posts the messages of `page`, and reports when the connection has caught up. Advances `at` with each message.
    async fn post_page(
        &self,
        at: &mut Watcher,
        current: &AgentSession,
        page: &[JournalEntry],
    ) -> Result<Option<PushStop>, PushError> {
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

    async fn post(&self, message: &StreamMessage) -> Result<Result<(), PostError>, PushError> {
        let Some(text) = frame(message)? else { return Ok(Ok(())) };
        Ok(self.connection.post(&text).await)
    }
}
