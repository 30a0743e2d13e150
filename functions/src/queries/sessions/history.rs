//! `GET /api/agents/sessions/history`: lists sessions that were created in a period (S0 8.7 `GetSessionHistoryQuery`).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::sessions::SessionSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::{AgentSession, Timestamp};
use pilothouse_store::layout;

use super::list::summaries;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("sessions-history", Verb::Get, "/api/agents/sessions/history", |verb| {
        verb.route(list_session_history)
    })
    .owner()
    .summary("List sessions that were created in a period")
    .query(&["limit", "cursor", "dateFrom", "dateTo"])
    .output::<Page<SessionSummary>>(&[200]);

/// Responds with 200 and a page, newest first. `dateFrom` (inclusive) and `dateTo` (exclusive) are timestamps.
async fn list_session_history(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<SessionSummary>>, Problem> {
    let from: Option<Timestamp> = parameters.parsed("dateFrom")?;
    let to: Option<Timestamp> = parameters.parsed("dateTo")?;
    let shown =
        |time: Option<Timestamp>| time.map_or_else(|| "None".to_owned(), |time| format!("Some({time})"));
    let range = format!("{}..{}", shown(from), shown(to));
    let scope = Scope::new("history", layout::owner_partition(&owner)).filtered(&range);
    let keep = |session: &AgentSession| {
        from.is_none_or(|from| session.created_at() >= from) && to.is_none_or(|to| session.created_at() < to)
    };
    Ok(Json(summaries(&app, &owner, &page, &scope, (from, to), keep).await?))
}
