//! `GET /api/projects/{id}/decision-log`: lists the decisions about the agents of a project (decision 75).

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::decisions::LoggedDecisionView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, PageRequest, Problem};
use pilothouse_app::paging::Scope;
use pilothouse_domain::{Project, ProjectId};
use pilothouse_store::layout;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-decision-log", Verb::Get, "/api/projects/{id}/decision-log", |verb| {
        verb.route(list_decision_log)
    })
    .owner()
    .summary("List the decisions about the agents of a project, latest first")
    .query(&["limit", "cursor", "since", "until"])
    .output::<Page<LoggedDecisionView>>(&[200]);

/// Responds with 200 and a page: verdicts on tool calls, decisions and their timeouts, brakes, uses of knowledge, and changes of mode and
/// trust. `since` (inclusive) and `until` (exclusive) are timestamps. Entries are kept for 90 days.
async fn list_decision_log(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    page: PageRequest,
    parameters: Parameters,
) -> Result<Json<Page<LoggedDecisionView>>, Problem> {
    app.store.aggregate::<Project>(&owner, id).await?.ok_or_else(Problem::no_project)?;
    let period = (parameters.parsed("since")?, parameters.parsed("until")?);
    let mut scope = Scope::new("decision-log", layout::decision_log_partition(id));
    if period != (None, None) {
        scope = scope.filtered_by(id, &parameters, &["since", "until"]);
    }
    let listing = app.store.decision_log(id, period, page.limit, scope.decode(&page)?).await?;
    Ok(Json(Page {
        items: listing.items.into_iter().map(LoggedDecisionView::from).collect(),
        next_cursor: listing.next.map(|position| scope.encode(&position)),
    }))
}
