//! `GET /api/agents/sessions/{id}/metrics`: returns the usage of a session by model and by subagent (S0 8.7
//! `GetSessionMetricsQuery`).

use axum::extract::State;
use pilothouse_api::sessions::{MetricsView, SessionMetricsView, SubAgentView};
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem, Session};
use pilothouse_domain::AgentSession;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-metrics", Verb::Get, "/api/agents/sessions/{id}/metrics", |verb| {
        verb.route(get_metrics)
    })
    .owner()
    .summary("Get the usage of a session by model and subagent")
    .output::<SessionMetricsView>(&[200]);

/// The number of subagents at which the list ends.
const SUBAGENTS: usize = 1000;

/// Responds with 200 and the metrics.
async fn get_metrics(
    State(app): State<App>,
    Owner(owner): Owner,
    Session(id): Session,
) -> Result<CommandResponse, Problem> {
    let session = app.session_of(&owner, id).await?;
    let metrics = of(&app, &session).await?;
    CommandResponse::ok(metrics.version, &metrics)
}

/// Collects the metrics of a session.
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
