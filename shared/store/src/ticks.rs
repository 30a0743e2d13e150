//! The clock of each project, and the outcomes that changed the trust of an agent (decision 76). No commit of a session writes them, so
//! that its events do not contend for an item of its project.

use pilothouse_domain::tick::TickClock;
use pilothouse_domain::trust::OutcomeSource;
use pilothouse_domain::{EventId, ProjectAgentId, ProjectId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose, guarded};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};

/// An outcome that was counted.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CountedOutcome {
    caused_by: EventId,
}

impl Store {
    /// `None` if the project has not needed a clock yet.
    pub async fn tick_clock(&self, project: ProjectId) -> Result<Option<Loaded<TickClock>>, StoreError> {
        self.load(&layout::tick_clock(project)).await
    }

    pub async fn is_outcome_counted(
        &self,
        agent: ProjectAgentId,
        source: OutcomeSource,
    ) -> Result<bool, StoreError> {
        Ok(self.load::<CountedOutcome>(&layout::counted_outcome(agent, source)).await?.is_some())
    }
}

impl Commit {
    /// Adds the clock of a project, guarded by its loaded version.
    pub fn tick_clock(&mut self, project: ProjectId, clock: &Loaded<TickClock>) -> Result<(), StoreError> {
        let row = write(layout::tick_clock(project), "tick-clock", &clock.value)?;
        self.push(guarded(row, clock.version), Purpose::Guard);
        Ok(())
    }

    /// Marks an outcome as counted. The commit fails if it was counted before.
    ///
    /// The mark of a source that ends once expires with the records of agents, when no message about it is delivered again.
    pub fn count_outcome(
        &mut self,
        agent: ProjectAgentId,
        source: OutcomeSource,
        caused_by: EventId,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let counted = CountedOutcome { caused_by };
        let mut row = write(layout::counted_outcome(agent, source), "counted-outcome", &counted)?;
        if !source.recurs() {
            self.retain(&mut row, now);
        }
        self.push(guarded(row, 0), Purpose::Guard);
        Ok(())
    }
}
