//! Contents of artifacts in the blob store. Each author has a prefix of its own, so that nobody can name, and so read,
//! a content that somebody else has uploaded.

use bytes::Bytes;
use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_domain::ProjectId;
use pilothouse_domain::artifact::{ArtifactAuthor, ArtifactVersion, VersionRecord};
use pilothouse_domain::value::ContentHash;
use pilothouse_store::blob::{BlobError, BlobKey};

/// The prefix of the contents that an author uploads.
pub(crate) fn prefix(project: ProjectId, author: &ArtifactAuthor) -> String {
    match author.agent() {
        Some(agent) => format!("artifacts/{project}/{agent}"),
        None => format!("artifacts/{project}/people"),
    }
}

pub(crate) fn blob_key(
    project: ProjectId,
    author: &ArtifactAuthor,
    hash: &ContentHash,
) -> Result<BlobKey, Problem> {
    BlobKey::with_digest(&prefix(project, author), hash.as_str()).map_err(Problem::internal)
}

/// The beginning of a content, if it is text.
pub(crate) fn head(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let shown = text.chars().take(VersionRecord::HEAD_CHARS);
    shown.filter(|c| !c.is_control() || c.is_whitespace()).collect()
}

/// Reads the content of a version.
pub(crate) async fn load(app: &App, project: ProjectId, version: &ArtifactVersion) -> Result<Bytes, Problem> {
    let key = blob_key(project, &version.author, &version.content.content_hash)?;
    let missing = || Problem::internal(format!("the content {} is missing", key.as_str()));
    app.blobs.get(&key).await.map_err(Problem::internal)?.ok_or_else(missing)
}

/// Stores a content under its hash. A repetition changes nothing.
pub(crate) async fn store(app: &App, key: &BlobKey, bytes: Bytes) -> Result<(), Problem> {
    app.blobs.put(key, bytes).await.map_err(|error| match error {
        BlobError::WrongContent => Problem::invalid("contentHash", "is not the SHA-256 of the content"),
        other => Problem::internal(other),
    })
}
