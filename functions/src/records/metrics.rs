//! `GET /api/agents/sessions/{id}/metrics`: what a session used, by model and by subagent (S0 8.7
//! `GetSessionMetricsQuery`).

use axum::extract::State;
use pilothouse_domain::AgentSession;

use crate::api::sessions::{MetricsView, SessionMetricsView, SubAgentView};
use crate::app::App;
use crate::change::Answer;
use crate::edge::{Owner, Problem, Session};

/// Subagents that are listed at most.
const SUBAGENTS: usize = 1000;

/// 200 with the metrics.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<Answer, Problem> {
    let session = app.session_of(&owner, id).await?;
    let metrics = of(&app, &session).await?;
    Answer::ok(metrics.version, &metrics)
}

/// The metrics of a session.
pub(super) async fn of(app: &App, session: &AgentSession) -> Result<SessionMetricsView, Problem> {
    let id = session.id();
    let mut subagents = Vec::new();
    let mut after = None;
    while subagents.len() < SUBAGENTS {
        let listing = app.store.subagents(id, 200, after).await?;
        subagents.extend(listing.items.into_iter().map(SubAgentView::from));
        after = listing.next;
        if after.is_none() {
            break;
        }
    }
    let version = session.control_version();
    Ok(SessionMetricsView { metrics: MetricsView::of(session), sub_agent_metrics: subagents, version })
}
