//! An artifact in lists and searches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Artifact, ArtifactAuthor, ArtifactContent, ArtifactKind, ArtifactPath, ArtifactState};
use crate::text::{ArtifactName, Tags, WorkstreamId};
use crate::{ArtifactId, ProjectId, Timestamp};

/// An artifact without its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactSummary {
    pub id: ArtifactId,
    pub project_id: ProjectId,
    /// The workstream that owns it.
    pub workstream: WorkstreamId,
    /// The path, relative to the root of the project. Unique for its author.
    pub path: ArtifactPath,
    pub name: ArtifactName,
    pub kind: ArtifactKind,
    /// Tags for searching.
    #[serde(default)]
    pub tags: Tags,
    /// The state of the review of the latest version.
    pub state: ArtifactState,
    /// The number of the latest version.
    pub version: u32,
    /// Hash, size and type of the latest version.
    #[serde(flatten)]
    pub content: ArtifactContent,
    /// The author of the first version.
    pub created_by: ArtifactAuthor,
    /// When it last changed.
    pub updated_at: Timestamp,
}

impl Artifact {
    pub fn summary(&self) -> ArtifactSummary {
        ArtifactSummary {
            id: self.id,
            project_id: self.project_id,
            workstream: self.workstream.clone(),
            path: self.path.clone(),
            name: self.name.clone(),
            kind: self.kind,
            tags: self.tags.clone(),
            state: self.review.state(),
            version: self.latest.version,
            content: self.latest.content.clone(),
            created_by: self.created_by.clone(),
            updated_at: self.updated_at,
        }
    }
}
