//! Artifacts in the API (S2, "Knowledge Store"; decision 84).

use std::collections::BTreeMap;

use pilothouse_domain::artifact::{
    Artifact, ArtifactPath, ArtifactReview, ArtifactState, ArtifactSummary, ArtifactVersion, ContentSize,
};
use pilothouse_domain::value::ContentHash;
use pilothouse_domain::{ArtifactId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An artifact with its latest version.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactView {
    /// The artifact as it is in lists.
    #[serde(flatten)]
    pub summary: ArtifactSummary,
    /// The address under which events and other artifacts refer to it.
    pub uri: String,
    /// The review of the latest version.
    pub review: ArtifactReview,
    /// The latest version.
    pub latest: ArtifactVersion,
    /// When the first version was stored.
    pub created_at: Timestamp,
    /// Increases with every change; also the `ETag`.
    pub revision: u64,
}

impl ArtifactView {
    /// The view of an artifact at a version of its stored state.
    pub fn of(artifact: &Artifact, revision: u64) -> Self {
        Self {
            summary: artifact.summary(),
            uri: artifact.uri(),
            review: artifact.review().clone(),
            latest: artifact.latest().clone(),
            created_at: artifact.created_at(),
            revision,
        }
    }
}

/// The version that an upload has stored (S2 `ArtifactUploadResult`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUploadResult {
    /// The id of the artifact.
    pub artifact_id: ArtifactId,
    /// The address under which events and other artifacts refer to it.
    pub backend_uri: String,
    /// The path of the artifact.
    pub path: ArtifactPath,
    /// The number of the version.
    pub version: u32,
    /// When the version was stored.
    pub stored_at: Timestamp,
    /// The size of the content in bytes.
    pub size_bytes: ContentSize,
    /// The SHA-256 of the content.
    pub content_hash: ContentHash,
    /// The state of its review.
    pub state: ArtifactState,
}

impl ArtifactUploadResult {
    /// The latest version of an artifact.
    pub fn of(artifact: &Artifact) -> Self {
        let latest = artifact.latest();
        Self {
            artifact_id: artifact.id(),
            backend_uri: artifact.uri(),
            path: artifact.path().clone(),
            version: latest.version,
            stored_at: latest.stored_at,
            size_bytes: latest.content.size_bytes,
            content_hash: latest.content.content_hash.clone(),
            state: artifact.review().state(),
        }
    }
}

/// An address for a large content. After the content is sent, the upload of the artifact names its hash instead.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactUploadLink {
    /// The method of the request: `PUT`.
    pub method: String,
    /// The address. One that begins with `/` is an address of this server, and needs the caller's `Authorization`.
    pub url: String,
    /// Headers that the request must have.
    pub headers: BTreeMap<String, String>,
    /// When the address expires.
    pub expires_at: Timestamp,
}

/// The differences between two versions of an artifact.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactDiff {
    /// The older version.
    pub from: u32,
    /// The newer version.
    pub to: u32,
    /// The differences in the unified format; empty if the contents are equal.
    pub unified: String,
    /// The number of added lines.
    pub added_lines: usize,
    /// The number of removed lines.
    pub removed_lines: usize,
}
