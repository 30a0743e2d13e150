//! `POST /api/artifacts/uploads`: returns an address for a large content of an artifact (S2, "Artifact extraction and sandbox
//! teardown").

use axum::Json;
use axum::extract::State;
use pilothouse_api::artifacts::ArtifactUploadLink;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_WRITE;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::body::Body;
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::artifact::ArtifactAuthor;

use crate::artifacts::upload::{PrepareUpload, prepare};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-prepare-upload", Verb::Post, "/api/artifacts/uploads", |verb| {
        verb.route(prepare_upload)
    })
    .owner()
    .summary("Get an address for a large content of an artifact")
    .input::<PrepareUpload>()
    .output::<ArtifactUploadLink>(&[200])
    .requires(ARTIFACT_WRITE);

/// Responds with 200 and the address. It accepts only the content with this hash, for 15 minutes. `POST /api/artifacts` with
/// `contentHash` and `sizeBytes` then completes the upload.
async fn prepare_upload(
    State(app): State<App>,
    Owner(owner): Owner,
    body: Body<PrepareUpload>,
) -> Result<Json<ArtifactUploadLink>, Problem> {
    let input = body.input;
    let project = app.chosen_project(&owner, input.project_id).await?.value.id();
    let own = format!("/api/artifacts/uploads/{}?projectId={project}", input.content_hash);
    Ok(Json(prepare(&app, (project, &ArtifactAuthor::Person { id: owner }), &input, own).await?))
}
