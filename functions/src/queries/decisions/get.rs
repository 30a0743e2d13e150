//! `GET /api/decisions/{id}`: one decision of the inbox.

use axum::Json;
use axum::extract::State;
use pilothouse_api::decisions::DecisionView;
use pilothouse_app::App;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::DecisionOf;
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("decisions-get", Verb::Get, "/api/decisions/{id}", |verb| verb.route(get_decision))
        .owner()
        .summary("Read a decision")
        .output::<DecisionView>(&[200]);

/// Responds with 200 and the decision. Decisions that are over are kept for 90 days.
async fn get_decision(
    State(app): State<App>,
    Owner(owner): Owner,
    DecisionOf(id): DecisionOf,
) -> Result<Json<DecisionView>, Problem> {
    let decision = app.store.decision_of(&owner, id).await?.ok_or_else(Problem::no_decision)?;
    Ok(Json(DecisionView::of(&decision)))
}
