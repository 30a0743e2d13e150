//! `WS /ws/agents/sessions/{id}/stream?after=CURSOR`: follows a session on the embedded server.

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::stream::{DraftView, StreamBody, StreamMessage, cursor};
use pilothouse_app::App;
use pilothouse_app::change_notifier::ChangeSubscription;
use pilothouse_app::drafts::DraftSubscription;
use pilothouse_app::error_chain;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_app::live_stream::{messages, place};
use pilothouse_domain::{AgentSessionId, UserId};

use crate::realtime::socket::{next_change, send};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("stream-connect", Verb::Get, "/ws/agents/sessions/{id}/stream", |verb| {
        verb.route(stream_session)
    })
    .owner()
    .summary("Follow a session live (WebSocket)")
    .query(&["after", "drafts"])
    .statuses(&[101])
    .requires(EMBEDDED);

/// Entries per read.
const READ: usize = 200;

/// Without `after`, the stream starts with the first entry of the session.
async fn stream_session(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
    parameters: Parameters,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let session = app.session_of(&owner, id).await?;
    let upgrade = upgrade.map_err(|_| Problem::invalid("Upgrade", "this address speaks WebSocket only"))?;
    let after = place(parameters.text("after"), &session)?;
    let has_drafts = parameters.parsed("drafts")?.unwrap_or(false);
    Ok(upgrade.on_upgrade(move |socket| async move {
        if let Err(cause) = follow(&app, &owner, id, after, has_drafts, socket).await {
            tracing::debug!(session = %id, cause = %error_chain(&cause), "a live stream ended");
        }
    }))
}

async fn follow(
    app: &App,
    owner: &UserId,
    id: AgentSessionId,
    after: (u64, usize),
    has_drafts: bool,
    mut socket: WebSocket,
) -> Result<(), Problem> {
    let (mut after, mut seen) = after;
    let mut changes = app.change_notifier.subscribe(id);
    let mut caught_up = false;
    let mut drafts = None;
    loop {
        let session = app.session_of(owner, id).await?;
        let entries = app.store.journal(id, after, READ).await?;
        let more = entries.len() == READ;
        for entry in entries {
            // `seen` counts messages of the entry after the cursor. That entry may have expired.
            let seen = if entry.sequence == after + 1 { std::mem::take(&mut seen) } else { 0 };
            for message in messages(&entry, &session).into_iter().skip(seen) {
                send(&mut socket, &message).await?;
            }
            after = entry.sequence;
        }
        if more {
            continue;
        }
        if !caught_up {
            caught_up = true;
            // Not earlier: a text that ends meanwhile would follow its own entry.
            drafts = has_drafts.then(|| app.drafts().subscribe(id));
            send(&mut socket, &StreamMessage { cursor: cursor(after), body: StreamBody::CaughtUp {} })
                .await?;
        }
        loop {
            match next_change(&mut socket, next_update(&mut *changes, drafts.as_mut())).await? {
                None => return Ok(()),
                Some(StreamUpdate::Journal) => break,
                Some(StreamUpdate::Draft(draft)) => {
                    let draft = StreamMessage { cursor: cursor(after), body: StreamBody::Draft(draft) };
                    send(&mut socket, &draft).await?;
                }
            }
        }
    }
}

/// The event that ends a wait.
enum StreamUpdate {
    Journal,
    Draft(DraftView),
}

/// Waits for the next event; `None` when the server shuts down. Entries of the journal are sent before drafts, because a draft belongs
/// after them.
async fn next_update(
    changes: &mut dyn ChangeSubscription,
    drafts: Option<&mut DraftSubscription>,
) -> Option<StreamUpdate> {
    let draft = async {
        match drafts {
            Some(drafts) => drafts.next().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        is_open = changes.changed() => is_open.then_some(StreamUpdate::Journal),
        draft = draft => Some(StreamUpdate::Draft(draft)),
    }
}
