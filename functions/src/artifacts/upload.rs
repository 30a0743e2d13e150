//! Uploads of contents that are too large for the request that describes the version. Each goes to an address that accepts this content
//! only.

use std::time::Duration;

use axum::extract::Request;
use deserr::Deserr;
use pilothouse_api::artifacts::ArtifactUploadLink;
use pilothouse_api::input::Violations;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::http::request::PathParams;
use pilothouse_domain::ProjectId;
use pilothouse_domain::artifact::{ArtifactAuthor, ContentSize};
use pilothouse_domain::value::ContentHash;
use schemars::JsonSchema;

use crate::artifact_content;
use crate::large_body::LargeBody;

/// How long an address accepts the content.
const VALID: Duration = Duration::from_mins(15);

/// A content to upload.
#[derive(Debug, Clone, Deserr, JsonSchema)]
#[deserr(error = Violations, rename_all = camelCase, deny_unknown_fields)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PrepareUpload {
    /// The project. Agents, and owners with one project, may leave it out.
    #[deserr(default)]
    pub project_id: Option<ProjectId>,
    /// The SHA-256 of the content. Another content is refused.
    pub content_hash: ContentHash,
    /// The size of the content in bytes.
    pub size_bytes: ContentSize,
}

/// The address for a content: that of the blob store, or `own`, an address of this server, if the blob store has none.
pub(crate) async fn prepare(
    app: &App,
    (project, author): (ProjectId, &ArtifactAuthor),
    input: &PrepareUpload,
    own: String,
) -> Result<ArtifactUploadLink, Problem> {
    let key = artifact_content::blob_key(project, author, &input.content_hash)?;
    let link = app.blobs.upload_link(&key, input.size_bytes.bytes(), VALID).await;
    let (url, headers) = match link.map_err(Problem::internal)? {
        Some(link) => (link.url, link.headers.into_iter().collect()),
        None => (own, std::collections::BTreeMap::default()),
    };
    Ok(ArtifactUploadLink { method: "PUT".to_owned(), url, headers, expires_at: app.now() + VALID })
}

/// Stores the content of a request to an address of this server.
pub(crate) async fn receive(
    app: &App,
    (project, author): (ProjectId, &ArtifactAuthor),
    hash: &ContentHash,
    request: Request,
) -> Result<(), Problem> {
    let limit = usize::try_from(ContentSize::MAX).unwrap_or(usize::MAX);
    let body = LargeBody::read(request.into_body(), limit).await?;
    let key = artifact_content::blob_key(project, author, hash)?;
    artifact_content::store(app, &key, body.bytes.clone()).await
}

/// The hash in the path of an upload.
pub(crate) fn named_hash(path: &PathParams) -> Result<ContentHash, Problem> {
    let no_upload = |wrong| Problem::NotFound(format!("there is no such upload: its name {wrong}"));
    ContentHash::parse(path.get("sha256").unwrap_or_default()).map_err(no_upload)
}
