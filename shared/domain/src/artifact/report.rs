//! A version of an artifact in the events of its agent (S2 `ArtifactEvent`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Artifact, ArtifactAuthor, ArtifactContent, ArtifactKind, ArtifactState};
use crate::names::named;
use crate::text::{ArtifactName, WorkstreamId};
use crate::{ArtifactId, Timestamp};

/// The state of an artifact in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactStatus {
    /// The agent has not finished it. Only shims report drafts.
    Draft,
    /// It waits for a review.
    InReview,
    Approved,
    Rejected,
}

named!(ArtifactStatus {
    Draft => "draft",
    InReview => "in_review",
    Approved => "approved",
    Rejected => "rejected",
});

impl From<ArtifactState> for ArtifactStatus {
    fn from(state: ArtifactState) -> Self {
        match state {
            ArtifactState::Pending => Self::InReview,
            ArtifactState::Approved => Self::Approved,
            ArtifactState::Rejected => Self::Rejected,
        }
    }
}

/// Where an artifact comes from (S2 `Provenance`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The id of the agent or the person that created it.
    pub created_by: String,
    /// When it was created. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// The id of the agent or the person that changed it last, after its creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_by: Option<String>,
    /// When it was changed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_at: Option<Timestamp>,
    /// The artifacts that it was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_artifact_ids: Vec<String>,
    /// The file that it is a copy of, relative to the root of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_path: Option<String>,
}

/// A stored version as its agent reported it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactReport {
    pub artifact_id: ArtifactId,
    pub version: u32,
    pub name: ArtifactName,
    pub kind: ArtifactKind,
    pub workstream: WorkstreamId,
    pub status: ArtifactStatus,
    pub provenance: Provenance,
    pub uri: String,
    #[serde(flatten)]
    pub content: ArtifactContent,
}

impl Artifact {
    /// The latest version, for the journal of the session that reported it.
    pub fn report(&self) -> ArtifactReport {
        let latest = &self.latest;
        let is_changed = latest.version > 1;
        ArtifactReport {
            artifact_id: self.id,
            version: latest.version,
            name: self.name.clone(),
            kind: self.kind,
            workstream: self.workstream.clone(),
            status: self.review.state().into(),
            provenance: Provenance {
                created_by: id_of(&self.created_by),
                created_at: Some(self.created_at),
                modified_by: is_changed.then(|| id_of(&latest.author)),
                modified_at: is_changed.then_some(latest.stored_at),
                source_artifact_ids: latest.source_artifact_ids.iter().map(ToString::to_string).collect(),
                source_path: latest.source_path.as_ref().map(ToString::to_string),
            },
            uri: self.uri(),
            content: latest.content.clone(),
        }
    }
}

fn id_of(author: &ArtifactAuthor) -> String {
    match author {
        ArtifactAuthor::Agent { agent_id, .. } => agent_id.to_string(),
        ArtifactAuthor::Person { id } => id.to_string(),
    }
}
