//! `GET /api/artifacts/{id}/versions/{version}/content`: returns the content of a version (decision 84).

use axum::extract::State;
use axum::response::Response;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_CONTENT;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::PathParams;
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::ArtifactId;

use super::content::content_of;
use super::{artifact_of, named_version, version_of};

pub const FUNCTION: HttpFunction = HttpFunction::new(
    "artifacts-version-content",
    Verb::Get,
    "/api/artifacts/{id}/versions/{version}/content",
    |verb| verb.route(get_version_content),
)
.owner()
.summary("Get the content of a version of an artifact")
.statuses(&[200, 303])
.requires(ARTIFACT_CONTENT);

/// Responds with 200 and the content of the version, or with 303 and a link that is valid for 15 minutes.
async fn get_version_content(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ArtifactId>,
    path: PathParams,
) -> Result<Response, Problem> {
    let artifact = artifact_of(&app, &owner, id).await?.value;
    let version = version_of(&app, &artifact, named_version(&path)?).await?;
    content_of(&app, artifact.project_id(), &version).await
}
