//! `WS /ws/decisions`: follows the owner's inbox on the embedded server (decision 80).

use std::collections::BTreeMap;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use pilothouse_api::decisions::{DecisionView, InboxMessage};
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::decision::{Decision, DecisionStatus};
use pilothouse_domain::{DecisionId, UserId};

use crate::realtime::socket::{send, serve, wait_for_change};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("decisions-stream", Verb::Get, "/ws/decisions", |verb| verb.route(stream_decisions))
        .owner()
        .summary("Follow the inbox live (WebSocket)")
        .statuses(&[101])
        .requires(EMBEDDED);

/// Decisions per read.
const READ: usize = 200;

/// Sends `caught_up`, and then each decision that changes. A client that lists the pending decisions after `caught_up` misses none.
async fn stream_decisions(
    State(app): State<App>,
    Owner(owner): Owner,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    serve("decisions", upgrade, move |socket| async move { follow(&app, &owner, socket).await })
}

async fn follow(app: &App, owner: &UserId, mut socket: WebSocket) -> Result<(), Problem> {
    let mut changes = app.change_notifier.subscribe_to_inbox(owner);
    let mut inbox = KnownInbox { app, owner, unsettled: BTreeMap::new() };
    inbox.read_resolving().await?;
    // A decision that changes after this read differs from it.
    inbox.changes().await?;
    send(&mut socket, &InboxMessage::CaughtUp {}).await?;
    while wait_for_change(&mut socket, &mut *changes).await? {
        for decision in inbox.changes().await? {
            let view = DecisionView::of(&decision);
            send(&mut socket, &InboxMessage::Decision(Box::new(view))).await?;
        }
    }
    Ok(())
}

/// The decisions that can still change, as the client knows them. Changes are found by comparison, so that a slow client, or one that
/// was notified of several commits at once, receives the latest state of each decision once.
struct KnownInbox<'a> {
    app: &'a App,
    owner: &'a UserId,
    unsettled: BTreeMap<DecisionId, Decision>,
}

impl KnownInbox<'_> {
    /// Reads the decisions whose resolution has not reached the agent yet, among those that ended last.
    async fn read_resolving(&mut self) -> Result<(), Problem> {
        let ended = self.app.store.ended_decisions(self.owner, READ, None).await?;
        self.unsettled.extend(ended.items.into_iter().filter(can_change).map(|it| (it.id, it)));
        Ok(())
    }

    /// Returns the decisions that changed since the last call: the open ones in the order of the inbox, then the suspended ones, then those
    /// that have ended.
    async fn changes(&mut self) -> Result<Vec<Decision>, Problem> {
        let before = std::mem::take(&mut self.unsettled);
        let mut changed = Vec::new();
        for decision in self.read_unsettled().await? {
            if before.get(&decision.id) != Some(&decision) {
                changed.push(decision.clone());
            }
            self.unsettled.insert(decision.id, decision);
        }
        for (id, known) in before {
            if self.unsettled.contains_key(&id) {
                continue;
            }
            let Some(decision) = self.app.store.decision_of(self.owner, id).await? else { continue };
            if decision != known {
                changed.push(decision.clone());
            }
            if can_change(&decision) {
                self.unsettled.insert(id, decision);
            }
        }
        Ok(changed)
    }

    /// Reads the open decisions, and then the suspended ones. One that is suspended between the reads is in both, and its last state counts.
    async fn read_unsettled(&self) -> Result<Vec<Decision>, Problem> {
        let Self { app, owner, .. } = self;
        let mut decisions = Vec::new();
        let mut after = None;
        loop {
            let page = app.store.open_decisions(owner, READ, after).await?;
            decisions.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        loop {
            let page = app.store.suspended_decisions(owner, READ, after).await?;
            decisions.extend(page.items);
            after = page.next;
            if after.is_none() {
                return Ok(decisions);
            }
        }
    }
}

const fn can_change(decision: &Decision) -> bool {
    matches!(
        decision.status(),
        DecisionStatus::Pending
            | DecisionStatus::Suspended
            | DecisionStatus::Orphaned
            | DecisionStatus::Resolving
    )
}
