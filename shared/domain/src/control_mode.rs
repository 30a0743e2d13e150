//! Control modes of a project: how much its agents may do without a person (S2, "Control Mode Enforcement"; decision 70).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::names::named;

/// S2's `ControlMode`, from the strictest to the most permissive.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ControlMode {
    /// A person approves everything that changes something.
    Orchestrator,
    /// Trust, confidence and blast radius decide.
    #[default]
    Adaptive,
    /// Agents act on their own, except for deletions, deployments and uncertain actions.
    Ecosystem,
}

named!(ControlMode {
    Orchestrator => "orchestrator",
    Adaptive => "adaptive",
    Ecosystem => "ecosystem",
});

impl ControlMode {
    pub const ALL: [Self; 3] = [Self::Orchestrator, Self::Adaptive, Self::Ecosystem];

    pub fn is_stricter_than(self, other: Self) -> bool {
        self < other
    }
}

/// Number of a control mode of a project: each change increments it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ModeRevision(u32);

impl ModeRevision {
    pub const fn new(revision: u32) -> Self {
        Self(revision)
    }

    pub const fn get(self) -> u32 {
        self.0
    }
}

/// The control mode that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlModeSetting {
    mode: ControlMode,
    revision: ModeRevision,
    /// Revision of the last change to a stricter mode. What a person approved before it has lapsed, also if the mode is permissive
    /// again.
    tightened_at: ModeRevision,
    changed_at: Timestamp,
}

/// A change of the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModeChange {
    pub from: ControlMode,
    pub to: ControlMode,
    pub revision: ModeRevision,
}

/// Whether an agent works with its current brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BriefSync {
    Synced,
    /// The agent gets the changed brief with its next reload or run.
    Pending,
}

impl ControlModeSetting {
    pub const fn new(mode: ControlMode, at: Timestamp) -> Self {
        Self { mode, revision: ModeRevision(0), tightened_at: ModeRevision(0), changed_at: at }
    }

    pub const fn mode(&self) -> ControlMode {
        self.mode
    }

    pub const fn revision(&self) -> ModeRevision {
        self.revision
    }

    pub const fn changed_at(&self) -> Timestamp {
        self.changed_at
    }

    /// Changes the mode. `None` if it is in force already.
    pub fn change(&mut self, to: ControlMode, at: Timestamp) -> Option<ModeChange> {
        let from = self.mode;
        if from == to {
            return None;
        }
        let revision = ModeRevision(self.revision.0.saturating_add(1));
        let tightened_at = if to.is_stricter_than(from) { revision } else { self.tightened_at };
        *self = Self { mode: to, revision, tightened_at, changed_at: at };
        Some(ModeChange { from, to, revision })
    }

    pub fn tightened_since(&self, revision: ModeRevision) -> bool {
        self.tightened_at > revision
    }
}
