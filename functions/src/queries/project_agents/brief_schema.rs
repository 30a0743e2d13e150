//! `GET /api/briefs/schema`: returns the JSON Schema of a brief (S2, "Brief Editor"; decision 79).

use axum::Json;
use pilothouse_app::function::requirements::STATIC;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::Owner;
use serde_json::Value;

use crate::briefs::input::BriefInput;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("briefs-schema", Verb::Get, "/api/briefs/schema", |verb| verb.route(get_brief_schema))
        .owner()
        .summary("Get the JSON Schema of a brief")
        .output::<Value>(&[200])
        .requires(STATIC);

/// Responds with 200 and the schema of the `brief` that `POST /api/agents/spawn` takes. Rules that depend on the project, such as the ids of
/// workstreams, are not part of it.
async fn get_brief_schema(_: Owner) -> Json<Value> {
    Json(schemars::schema_for!(BriefInput).to_value())
}
