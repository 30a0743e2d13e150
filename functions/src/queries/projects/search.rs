//! `GET /api/projects/{id}/search`: searches artifacts and objectives of a project by words (decision 84).

use axum::Json;
use axum::extract::State;
use pilothouse_api::knowledge::SearchResults;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::Parameters;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::{Project, ProjectId};

use crate::knowledge::search::{search, terms_of};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("projects-search", Verb::Get, "/api/projects/{id}/search", |verb| {
        verb.route(search_project)
    })
    .owner()
    .summary("Search the artifacts and objectives of a project")
    .query(&["query"])
    .output::<SearchResults>(&[200]);

/// Responds with 200 and at most 20 results. A reaction updates the index, so new contents appear after a moment.
async fn search_project(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ProjectId>,
    parameters: Parameters,
) -> Result<Json<SearchResults>, Problem> {
    app.store.aggregate::<Project>(&owner, id).await?.ok_or_else(Problem::no_project)?;
    let terms = terms_of(parameters.text("query"))?;
    Ok(Json(search(&app, id, None, terms).await?))
}
