//! `GET /api/artifacts/{id}`: returns an artifact (S2, "Frontend REST API").

use axum::extract::State;
use pilothouse_api::artifacts::ArtifactView;
use pilothouse_app::App;
use pilothouse_app::command::CommandResponse;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ArtifactId;

use super::artifact_of;

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-get", Verb::Get, "/api/artifacts/{id}", |verb| verb.route(get_artifact))
        .owner()
        .summary("Get an artifact")
        .output::<ArtifactView>(&[200]);

/// Responds with 200 and the artifact with its latest version.
async fn get_artifact(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ArtifactId>,
) -> Result<CommandResponse, Problem> {
    let loaded = artifact_of(&app, &owner, id).await?;
    CommandResponse::ok(loaded.version, &ArtifactView::of(&loaded.value, loaded.version))
}
