//! Reviews of artifacts by people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::text::Feedback;
use crate::{Timestamp, UserId};

/// The review of the latest version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum ArtifactReview {
    #[default]
    Pending,
    Approved {
        by: UserId,
        at: Timestamp,
    },
    Rejected {
        by: UserId,
        at: Timestamp,
        /// The changes that the next version needs.
        reason: Feedback,
    },
}

/// The state of a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactState {
    Pending,
    Approved,
    Rejected,
}

named!(ArtifactState {
    Pending => "pending",
    Approved => "approved",
    Rejected => "rejected",
});

impl ArtifactState {
    pub const ALL: [Self; 3] = [Self::Pending, Self::Approved, Self::Rejected];
}

impl ArtifactReview {
    pub const fn state(&self) -> ArtifactState {
        match self {
            Self::Pending => ArtifactState::Pending,
            Self::Approved { .. } => ArtifactState::Approved,
            Self::Rejected { .. } => ArtifactState::Rejected,
        }
    }
}
