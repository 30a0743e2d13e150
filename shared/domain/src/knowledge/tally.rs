//! The numbers of artifacts of a project, by workstream.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::{Artifact, ArtifactError};
use crate::text::WorkstreamId;

/// Counts of artifacts. A reaction maintains them, so that agents that report at the same time do not contend for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactTally {
    by_workstream: BTreeMap<WorkstreamId, u64>,
}

impl ArtifactTally {
    pub fn count(&mut self, workstream: WorkstreamId) {
        let count = self.by_workstream.entry(workstream).or_default();
        *count = count.saturating_add(1);
    }

    pub fn of(&self, workstream: &WorkstreamId) -> u64 {
        self.by_workstream.get(workstream).copied().unwrap_or_default()
    }

    /// Refuses another artifact of a project that has the most already. Artifacts that are not counted yet may exceed the limit.
    pub fn ensure_room(&self) -> Result<(), ArtifactError> {
        let total = self.by_workstream.values().copied().fold(0, u64::saturating_add);
        let max = Artifact::MAX_PER_PROJECT;
        if total >= max { Err(ArtifactError::TooMany { max }) } else { Ok(()) }
    }
}
