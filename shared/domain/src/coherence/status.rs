//! States of a coherence issue (S2 `CoherenceStatus`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::text::Feedback;
use crate::{Timestamp, UserId};

/// The state, with the person and time of its decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum CoherenceStatus {
    /// No person has decided on it.
    Open,
    /// A person confirmed that it is real (S2 "investigating").
    Confirmed { by: UserId, at: Timestamp },
    /// It is not real.
    Dismissed {
        /// Absent if a model dismissed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<UserId>,
        at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Feedback>,
    },
    /// The parts fit together now.
    Resolved { by: UserId, at: Timestamp, resolution: Feedback },
}

/// The state alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoherenceState {
    Open,
    Confirmed,
    Dismissed,
    Resolved,
}

named!(CoherenceState {
    Open => "open",
    Confirmed => "confirmed",
    Dismissed => "dismissed",
    Resolved => "resolved",
});

impl CoherenceState {
    pub const ALL: [Self; 4] = [Self::Open, Self::Confirmed, Self::Dismissed, Self::Resolved];

    /// Whether it counts for the score: nobody has dismissed or resolved it.
    pub const fn counts(self) -> bool {
        match self {
            Self::Open | Self::Confirmed => true,
            Self::Dismissed | Self::Resolved => false,
        }
    }
}

impl CoherenceStatus {
    pub const fn state(&self) -> CoherenceState {
        match self {
            Self::Open => CoherenceState::Open,
            Self::Confirmed { .. } => CoherenceState::Confirmed,
            Self::Dismissed { .. } => CoherenceState::Dismissed,
            Self::Resolved { .. } => CoherenceState::Resolved,
        }
    }

    /// When it was dismissed or resolved.
    pub const fn ended_at(&self) -> Option<Timestamp> {
        match self {
            Self::Open | Self::Confirmed { .. } => None,
            Self::Dismissed { at, .. } | Self::Resolved { at, .. } => Some(*at),
        }
    }
}
