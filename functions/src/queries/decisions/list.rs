//! `GET /api/decisions`: what waits for the owner in all sessions, or what became of it.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::decisions::{DecisionCounts, DecisionPage, DecisionView};
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::decision::{Decision, DecisionKind, DecisionStatus};
use pilothouse_domain::{AgentSessionId, ProjectAgentId, ProjectId, UserId};
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("decisions-list", Verb::Get, "/api/decisions", |verb| verb.route(list_decisions))
        .owner()
        .summary("List decisions that wait for the owner")
        .query(&["limit", "cursor", "state", "kind", "session", "projectId", "agentId", "counts"])
        .output::<DecisionPage>(&[200]);

/// Pages and decisions of a page that are read to count.
const COUNTED_PAGES: usize = 5;
const COUNTED_OF_PAGE: usize = 200;

/// Responds with 200 and a page. Pending and orphaned decisions are the default: the most severe first, then those with the largest blast
/// radius, then the oldest. With another `state` the latest come first. `kind`, `session`, `projectId` and `agentId` filter. A filtered
/// page may be short even if more pages follow. `counts=true` adds the numbers of pending and orphaned decisions.
async fn list_decisions(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<DecisionPage>, Problem> {
    let state = parameters.one_of("state", &DecisionStatus::ALL)?;
    let kind = parameters.one_of("kind", &DecisionKind::ALL)?;
    let session: Option<AgentSessionId> = parameters.parsed("session")?;
    let project: Option<ProjectId> = parameters.parsed("projectId")?;
    let agent: Option<ProjectAgentId> = parameters.parsed("agentId")?;
    let counted = parameters.one_of("counts", &[true, false])?.unwrap_or(false);
    let partition = match state {
        None | Some(DecisionStatus::Pending | DecisionStatus::Orphaned) => {
            layout::open_decisions_partition(&owner)
        }
        Some(DecisionStatus::Suspended) => layout::suspended_decisions_partition(&owner),
        _ => layout::ended_decisions_partition(&owner),
    };
    let filter = ["state", "kind", "session", "projectId", "agentId"];
    let filter = filter.map(|name| parameters.text(name).unwrap_or_default()).join("&");
    let scope = Scope::new("decisions", partition).filtered(&filter);
    let wanted = |decision: &Decision| {
        state.is_none_or(|state| decision.status() == state)
            && kind.is_none_or(|kind| decision.kind() == kind)
            && session.is_none_or(|session| decision.session_id() == Some(session))
            && project.is_none_or(|id| decision.project_id() == Some(id))
            && agent.is_none_or(|id| decision.project.as_ref().is_some_and(|of| of.agent_id == id))
    };
    let (store, of) = (&app.store, &owner);
    let read = |limit, after| async move {
        match state {
            None | Some(DecisionStatus::Pending | DecisionStatus::Orphaned) => {
                store.open_decisions(of, limit, after).await
            }
            Some(DecisionStatus::Suspended) => store.suspended_decisions(of, limit, after).await,
            _ => store.ended_decisions(of, limit, after).await,
        }
    };
    let keep = |decision| wanted(&decision).then(|| DecisionView::of(&decision));
    let Page { items, next_cursor } = scope.read(&page, read, keep).await?;
    let counts = if counted { Some(counts(&app, &owner).await?) } else { None };
    Ok(Json(DecisionPage { items, next_cursor, counts }))
}

async fn counts(app: &App, owner: &UserId) -> Result<DecisionCounts, Problem> {
    let mut counts = DecisionCounts::default();
    let mut after = None;
    for _ in 0..COUNTED_PAGES {
        let listing = app.store.open_decisions(owner, COUNTED_OF_PAGE, after).await?;
        listing.items.iter().for_each(|decision| counts.add(decision.kind()));
        after = listing.next;
        if after.is_none() {
            return Ok(counts);
        }
    }
    counts.is_partial = true;
    Ok(counts)
}
