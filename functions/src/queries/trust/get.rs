//! `GET /api/trust/{id}`: returns the trust of an agent (S2 `GET /api/trust/:agentId`). Agents cannot read it.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::trust::{TrustChange, TrustView};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::journal::AggregateJournalEntry;
use pilothouse_domain::{ProjectAgent, ProjectAgentEvent, ProjectAgentId};
use pilothouse_store::layout;

use super::agent_with_time;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("trust-get", Verb::Get, "/api/trust/{id}", |verb| verb.route(get_trust))
        .owner()
        .summary("Get the trust of an agent, with its history")
        .query(&["limit", "cursor"])
        .output::<TrustView>(&[200]);

/// Responds with 200, the trust now, and a page of its changes, newest first. A page may be short even if more changes follow.
async fn get_trust(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectAgentId>,
    page: PageRequest,
) -> Result<Json<TrustView>, Problem> {
    let (agent, time) = agent_with_time(&app, &owner, id).await?;
    let history = history(&app, id, agent.version, &page).await?;
    let tick = time.tick(app.now())?;
    Ok(Json(TrustView::of(&agent.value, &time.project.value, tick, history)))
}

/// The changes up to `version` of the agent. A later one, which is committed meanwhile, would not fit to the score.
async fn history(
    app: &App,
    id: ProjectAgentId,
    version: u64,
    page: &PageRequest,
) -> Result<Page<TrustChange>, Problem> {
    let scope = Scope::of_table("trust", layout::aggregate_journal_partition::<ProjectAgent>(id));
    let read = |limit, after| app.store.aggregate_journal::<ProjectAgent>(id, true, limit, after);
    scope.read(page, read, |entry| Some(&entry).filter(|it| it.sequence <= version).and_then(change)).await
}

/// The change of trust that an entry records. An entry has one at most.
fn change(recorded: &AggregateJournalEntry<ProjectAgentEvent>) -> Option<TrustChange> {
    recorded.events.iter().find_map(|event| match event {
        ProjectAgentEvent::TrustChanged { entry, session_id, caused_by } => Some(TrustChange {
            at: recorded.at,
            session_id: *session_id,
            caused_by: *caused_by,
            entry: (**entry).clone(),
            explanation: entry.rule.to_string(),
        }),
        ProjectAgentEvent::Spawned { .. }
        | ProjectAgentEvent::SessionChanged { .. }
        | ProjectAgentEvent::BriefUpdated { .. }
        | ProjectAgentEvent::ProjectBriefChanged {}
        | ProjectAgentEvent::ContextInjected { .. }
        | ProjectAgentEvent::ToolApproved { .. }
        | ProjectAgentEvent::Crashed { .. }
        | ProjectAgentEvent::AutonomyAnswered { .. }
        | ProjectAgentEvent::TrustConfigured { .. } => None,
    })
}
