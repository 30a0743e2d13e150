//! `GET /healthz`: reports whether the server accepts requests.

use axum::Json;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use serde_json::{Value, json};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("health", Verb::Get, "/healthz", |verb| verb.route(health))
        .anyone()
        .summary("Check whether the server accepts requests")
        .requires(EMBEDDED);

/// Responds with 200 while the process accepts requests.
async fn health() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}
