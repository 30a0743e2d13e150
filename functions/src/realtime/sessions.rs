//! `WS /ws/sessions`: follows the list of the owner's sessions and brakes on the embedded server (decision 86).

use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::pool::PoolCounts;
use pilothouse_api::sessions::{SessionListMessage, SessionSummary};
use pilothouse_app::App;
use pilothouse_app::change_notifier::{ChangeSubscription, ChangedSessions, SessionsSubscription};
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::{AgentSessionId, UserId};
use pilothouse_store::LineScope;

use crate::realtime::socket::{next_change, send, serve};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-stream", Verb::Get, "/ws/sessions", |verb| verb.route(stream_sessions))
        .owner()
        .summary("Follow the list of sessions live (WebSocket)")
        .statuses(&[101])
        .requires(EMBEDDED);

/// How long changes are collected, so that a busy session is sent at most five times a second.
const COLLECT: Duration = Duration::from_millis(200);

/// Sends `caught_up` and the counts of the pool, and then each session that changes, new counts, and that brakes changed. A client that
/// lists the sessions and the brakes after `caught_up` misses none.
async fn stream_sessions(
    State(app): State<App>,
    Owner(owner): Owner,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    serve("sessions", upgrade, move |socket| async move { follow(&app, &owner, socket).await })
}

async fn follow(app: &App, owner: &UserId, mut socket: WebSocket) -> Result<(), Problem> {
    let mut sources = Changes {
        sessions: app.change_notifier.subscribe_to_sessions(),
        brakes: app.change_notifier.subscribe_to_brakes(owner),
    };
    send(&mut socket, &SessionListMessage::CaughtUp {}).await?;
    let mut counts = pool_counts(app, owner).await?;
    send(&mut socket, &SessionListMessage::Pool(counts)).await?;
    while let Some(first) = next_change(&mut socket, sources.next()).await? {
        let mut changed = Changed::default();
        changed.add(first);
        let end = tokio::time::Instant::now() + COLLECT;
        while let Ok(further) = tokio::time::timeout_at(end, sources.next()).await {
            let Some(further) = further else { return Ok(()) };
            changed.add(further);
        }
        if changed.missed {
            // The client reads the sessions and the brakes again.
            send(&mut socket, &SessionListMessage::CaughtUp {}).await?;
            continue;
        }
        if changed.brakes {
            send(&mut socket, &SessionListMessage::Brakes {}).await?;
        }
        let now = pool_counts(app, owner).await?;
        if std::mem::replace(&mut counts, now) != now {
            send(&mut socket, &SessionListMessage::Pool(now)).await?;
        }
        for id in changed.sessions {
            if let Some(session) = app.store.session_of(owner, id).await? {
                let summary = SessionSummary::of(&session);
                send(&mut socket, &SessionListMessage::Session(Box::new(summary))).await?;
            }
        }
    }
    Ok(())
}

async fn pool_counts(app: &App, owner: &UserId) -> Result<PoolCounts, Problem> {
    Ok(PoolCounts::of(&app.store.pool_with(owner, LineScope::Nothing).await?.value))
}

struct Changes {
    sessions: Box<dyn SessionsSubscription>,
    brakes: Box<dyn ChangeSubscription>,
}

enum Change {
    Sessions(ChangedSessions),
    Brakes,
}

impl Changes {
    /// Waits for the next change. Returns `None` when the server shuts down. Dropping the future loses nothing.
    async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            sessions = self.sessions.next() => sessions.map(Change::Sessions),
            is_running = self.brakes.changed() => is_running.then_some(Change::Brakes),
        }
    }
}

/// What changed since the last messages.
#[derive(Default)]
struct Changed {
    sessions: BTreeSet<AgentSessionId>,
    brakes: bool,
    missed: bool,
}

impl Changed {
    fn add(&mut self, change: Change) {
        match change {
            Change::Sessions(ChangedSessions::Sessions(ids)) => self.sessions.extend(ids),
            Change::Sessions(ChangedSessions::Missed) => self.missed = true,
            Change::Brakes => self.brakes = true,
        }
    }
}
