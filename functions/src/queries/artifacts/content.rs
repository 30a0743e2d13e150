//! `GET /api/artifacts/{id}/content`: returns the content of an artifact (S2, "Frontend REST API").

use axum::extract::State;
use axum::response::Response;
use pilothouse_app::App;
use pilothouse_app::function::requirements::ARTIFACT_CONTENT;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Id, Owner, Problem};
use pilothouse_domain::artifact::ArtifactVersion;
use pilothouse_domain::{ArtifactId, ProjectId};

use super::artifact_of;
use crate::artifact_content::blob_key;
use crate::queries::records::blob::{MAX_ANSWER_BYTES, content_response, link_response};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-content", Verb::Get, "/api/artifacts/{id}/content", |verb| {
        verb.route(get_content)
    })
    .owner()
    .summary("Get the content of an artifact")
    .statuses(&[200, 303])
    .requires(ARTIFACT_CONTENT);

/// Responds with 200 and the content of the latest version, or with 303 and a link that is valid for 15 minutes.
async fn get_content(
    State(app): State<App>,
    Owner(owner): Owner,
    Id(id): Id<ArtifactId>,
) -> Result<Response, Problem> {
    let artifact = artifact_of(&app, &owner, id).await?.value;
    content_of(&app, artifact.project_id(), artifact.latest()).await
}

pub(super) async fn content_of(
    app: &App,
    project: ProjectId,
    version: &ArtifactVersion,
) -> Result<Response, Problem> {
    let key = blob_key(project, &version.author, &version.content.content_hash)?;
    // Its hash was verified when it was stored, so that a large content need not be read to be linked.
    if version.content.size_bytes.bytes() > MAX_ANSWER_BYTES as u64
        && let Some(link) = link_response(app, &key).await?
    {
        return Ok(link);
    }
    let missing = || Problem::internal(format!("the content {} is missing", key.as_str()));
    content_response(app, &key).await?.ok_or_else(missing)
}
