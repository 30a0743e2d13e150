//! `GET /api/agents/sessions/history`: sessions that were created in a range of time (S0 8.7 `GetSessionHistoryQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_domain::{AgentSession, Timestamp};
use pilothouse_store::layout;

use super::list::summaries;
use crate::api::Page;
use crate::api::sessions::SessionSummary;
use crate::app::App;
use crate::edge::request::Parameters;
use crate::edge::{Owner, PageRequest, Problem};
use crate::records::paging::Scope;

/// 200 with a page, newest first: `dateFrom` (inclusive) and `dateTo` (exclusive) are times. Each has its status, cost,
/// duration and outcome.
pub async fn handle(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<SessionSummary>>, Problem> {
    let from: Option<Timestamp> = parameters.parsed("dateFrom")?;
    let to: Option<Timestamp> = parameters.parsed("dateTo")?;
    let range = format!("{from:?}..{to:?}");
    let scope = Scope::new("history", layout::owner_partition(&owner)).filtered(&range);
    let keep = |session: &AgentSession| {
        from.is_none_or(|from| session.created_at() >= from) && to.is_none_or(|to| session.created_at() < to)
    };
    Ok(Json(summaries(&app, &owner, &page, &scope, (from, to), keep).await?))
}
