//! Errors of operations on artifacts. Each has a stable code and a sentence that says what to do (decision 5).

use super::review::ArtifactState;
use crate::text::WorkstreamId;

/// A refused operation. The artifact is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArtifactError {
    #[error(
        "the artifact has version {current}; read that version, and repeat the request with `expectedVersion` {current}"
    )]
    VersionConflict { current: u32 },
    #[error("version {version} was {state} already; a new version can be reviewed again")]
    Reviewed { version: u32, state: ArtifactState },
    #[error("the artifact belongs to workstream `{workstream}`, and cannot move to another one")]
    OtherWorkstream { workstream: WorkstreamId },
    #[error(
        "workstream `{workstream}` is not the agent's own; agents write artifacts in their own workstream only"
    )]
    NotWritable { workstream: WorkstreamId },
    #[error(
        "workstream `{workstream}` is not readable for the agent; its brief can add it to `readableWorkstreams`"
    )]
    NotReadable { workstream: WorkstreamId },
    #[error("a project may have at most {max} artifacts; write new versions of existing ones")]
    TooMany { max: u64 },
}

impl ArtifactError {
    /// Stable error code (decision 5).
    pub const fn code(&self) -> &'static str {
        match self {
            Self::VersionConflict { .. } => "artifact-version-conflict",
            Self::Reviewed { .. } => "artifact-reviewed",
            Self::OtherWorkstream { .. } => "other-workstream",
            Self::NotWritable { .. } | Self::NotReadable { .. } => "outside-workstream",
            Self::TooMany { .. } => "too-many-artifacts",
        }
    }
}
