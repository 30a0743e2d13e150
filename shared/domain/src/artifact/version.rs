//! Versions of an artifact and their authors (S2 `Provenance`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::content::ArtifactContent;
use super::path::ArtifactPath;
use crate::tick::Tick;
use crate::{AgentSessionId, ArtifactId, ProjectAgentId, RunId, Timestamp, ToolCallId, UserId};

/// The author of a version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ArtifactAuthor {
    Person {
        id: UserId,
    },
    Agent {
        agent_id: ProjectAgentId,
        /// The session that reported the version.
        session_id: AgentSessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run_id: Option<RunId>,
        /// The tool call that reported the version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<ToolCallId>,
    },
}

impl ArtifactAuthor {
    pub const fn agent(&self) -> Option<ProjectAgentId> {
        match self {
            Self::Agent { agent_id, .. } => Some(*agent_id),
            Self::Person { .. } => None,
        }
    }

    /// Whether both are the same person, or the same agent in any of its sessions.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Person { id }, Self::Person { id: other }) => id == other,
            (Self::Agent { agent_id, .. }, Self::Agent { agent_id: other, .. }) => agent_id == other,
            (Self::Person { .. }, Self::Agent { .. }) | (Self::Agent { .. }, Self::Person { .. }) => false,
        }
    }

    /// The part of the artifact's address that names its author.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Agent { agent_id, .. } => agent_id.to_string(),
            Self::Person { .. } => "people".to_owned(),
        }
    }
}

/// One version of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersion {
    /// Counts from 1.
    pub version: u32,
    /// Hash, size and type of the content.
    #[serde(flatten)]
    pub content: ArtifactContent,
    /// The person or the agent that wrote it.
    pub author: ArtifactAuthor,
    /// The file that it is a copy of, relative to the root of the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_path: Option<ArtifactPath>,
    /// The artifacts that it was derived from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_artifact_ids: Vec<ArtifactId>,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// The tick of the project at that time.
    pub tick: Tick,
}

/// A version as it is stored, with the beginning of its text for the search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionRecord {
    #[serde(flatten)]
    pub version: ArtifactVersion,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub head: String,
}

impl VersionRecord {
    /// Group of the records among the parts of an artifact.
    pub const GROUP: &'static str = "version";
    /// Most characters of `head`.
    pub const HEAD_CHARS: usize = 2000;

    /// Id of the record of a version. Ids sort like versions.
    pub fn id(version: u32) -> String {
        format!("{version:010}")
    }
}
