//! `GET /api/settings`: how the operator configured this server.

use axum::Json;
use axum::extract::State;
use pilothouse_api::settings::ServerSettings;
use pilothouse_app::App;
use pilothouse_app::function::requirements::STATIC;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("settings-get", Verb::Get, "/api/settings", |verb| verb.route(get_settings))
        .owner()
        .summary("Show the settings of the server")
        .output::<ServerSettings>(&[200])
        .requires(STATIC);

/// Responds with 200.
async fn get_settings(State(app): State<App>, Owner(_): Owner) -> Result<Json<ServerSettings>, Problem> {
    Ok(Json(ServerSettings {
        default_adapter: app.default_adapter.clone(),
        allowed_models: app.allowed_models.clone(),
        retention_days: app.store.retention().days(),
        reviews_coherence: app.integrations.has_model,
        embeds_texts: app.integrations.has_embeddings,
    }))
}
