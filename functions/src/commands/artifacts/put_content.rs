//! `PUT /api/artifacts/uploads/{sha256}`: receives a large content of an artifact on the embedded server.

use axum::extract::{Request, State};
use http::StatusCode;
use pilothouse_app::App;
use pilothouse_app::function::requirements::EMBEDDED;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::request::{Parameters, PathParams};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_domain::artifact::ArtifactAuthor;

use crate::artifacts::upload::{named_hash, receive};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("artifacts-put-content", Verb::Put, "/api/artifacts/uploads/{sha256}", |verb| {
        verb.route(put_content)
    })
    .owner()
    .summary("Upload a large content of an artifact")
    .query(&["projectId"])
    .statuses(&[204])
    .requires(EMBEDDED);

/// Responds with 204. The name in the path must be the SHA-256 of the body. In AWS, the content goes to S3 instead.
async fn put_content(
    State(app): State<App>,
    Owner(owner): Owner,
    path: PathParams,
    parameters: Parameters,
    request: Request,
) -> Result<StatusCode, Problem> {
    let hash = named_hash(&path)?;
    let project = app.chosen_project(&owner, parameters.parsed("projectId")?).await?.value.id();
    receive(&app, (project, &ArtifactAuthor::Person { id: owner }), &hash, request).await?;
    Ok(StatusCode::NO_CONTENT)
}
