//! `GET /api/brakes`: lists the owner's emergency brakes, latest first.

use axum::Json;
use axum::extract::State;
use pilothouse_api::Page;
use pilothouse_api::brakes::BrakeSummary;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, PageRequest, Problem};
use pilothouse_domain::Brake;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("brakes-list", Verb::Get, "/api/brakes", |verb| verb.route(list_brakes))
        .owner()
        .summary("List emergency brakes, latest first")
        .query(&["limit", "cursor"])
        .output::<Page<BrakeSummary>>(&[200]);

/// Responds with 200 and a page of brakes, in force and released.
async fn list_brakes(
    State(app): State<App>,
    Owner(owner): Owner,
    page: PageRequest,
) -> Result<Json<Page<BrakeSummary>>, Problem> {
    let brakes = app.page_of_aggregates(&owner, &page, "", true, |_: &Brake| true, BrakeSummary::of).await?;
    Ok(Json(brakes))
}
