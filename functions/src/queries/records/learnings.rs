//! `GET /api/agents/learnings`: lists learnings about people and communication (AG-014, decision 37).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::agent_api::{AgentLearning, LearningKind};
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("records-learnings", Verb::Get, "/api/agents/learnings", |verb| {
        verb.route(list_learnings)
    })
    .owner()
    .summary("List learnings about people and communication")
    .query(&["limit", "cursor", "kind", "sessionId"])
    .output::<Page<AgentLearning>>(&[200]);

/// Responds with 200 and a page: all learnings of the owner, newest first, or with `sessionId` those of one session, oldest
/// first. `kind` filters by kind. A filtered page may be short even if more pages follow.
async fn list_learnings(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<AgentLearning>>, Problem> {
    let kind: Option<LearningKind> = parameters.parsed("kind")?;
    let session: Option<AgentSessionId> = parameters.parsed("sessionId")?;
    let scope = match session {
        Some(id) => {
            app.session_of(&owner, id).await?;
            Scope::of_table("learnings", layout::session_partition(id))
        }
        None => Scope::new("learnings", layout::learnings_partition(&owner)),
    };
    let filter = kind.map_or_else(|| "None".to_owned(), |kind| format!("Some({kind})"));
    let scope = scope.filtered(&filter);
    let (store, of) = (&app.store, &owner);
    let read = |limit, after| async move {
        match session {
            Some(id) => store.learnings_of_session(id, limit, after).await,
            None => store.learnings(of, limit, after).await,
        }
    };
    let wanted = |item: &AgentLearning| kind.is_none_or(|kind| item.learning.kind == kind);
    Ok(Json(scope.read(&page, read, |item| Some(item).filter(wanted)).await?))
}
