//! `GET /openapi.json`: returns the OpenAPI 3.1 document.

use axum::Json;
use pilothouse_app::function::requirements::STATIC;
use pilothouse_app::function::{HttpFunction, Verb};
use serde_json::Value;

use super::HTTP_FUNCTIONS;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("openapi", Verb::Get, "/openapi.json", |verb| verb.route(openapi_document))
        .anyone()
        .summary("Get the OpenAPI document")
        .requires(STATIC);

/// Responds with 200 and the document.
async fn openapi_document() -> Json<Value> {
    Json(document())
}

pub fn document() -> Value {
    pilothouse_app::openapi::document(HTTP_FUNCTIONS)
}
