//! `GET /api/agents/learnings`: what agents learned about people and communication (AG-014, ruling 37).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::AgentSessionId;
use pilothouse_domain::agent_api::{AgentLearning, LearningKind};
use pilothouse_store::layout;

use super::paging::Scope;
use crate::api::Page;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};

/// Pages of the list that one request reads, at most: a filter costs a bounded amount.
const READS: usize = 5;

/// 200 with a page: all of the owner's, newest first, or with `sessionId` those of one session, oldest first. `kind`
/// keeps one kind; a page may then be short although there are more.
pub async fn handle(
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
    let scope = scope.filtered(&format!("{kind:?}"));
    let mut after = scope.decode(&page)?;
    let mut items = Vec::new();
    for _ in 0..READS {
        let room = page.limit - items.len();
        let listing = match session {
            Some(id) => app.store.learnings_of_session(id, room, after).await?,
            None => app.store.learnings(&owner, room, after).await?,
        };
        let wanted = |item: &AgentLearning| kind.is_none_or(|kind| item.learning.kind == kind);
        items.extend(listing.items.into_iter().filter(wanted));
        after = listing.next;
        if after.is_none() || items.len() >= page.limit {
            break;
        }
    }
    Ok(Json(scope.page(items, after)))
}
