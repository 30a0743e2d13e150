//! Records of the clock about itself and about the events queue, so that an absence of the control plane is not mistaken for the
//! death of a run.

use pilothouse_domain::session::Absence;
use pilothouse_domain::{AgentSessionId, RunId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClockSweep {
    pub at: Timestamp,
    /// Last period without sweeps, including downtime of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absence: Option<Absence>,
}

#[derive(Serialize, Deserialize)]
struct Processed {
    run: RunId,
    until: Timestamp,
}

impl Store {
    pub async fn clock_sweep(&self) -> Result<Option<ClockSweep>, StoreError> {
        Ok(self.load::<ClockSweep>(&layout::clock_sweep()).await?.map(|loaded| loaded.value))
    }

    pub async fn record_clock_sweep(&self, sweep: &ClockSweep) -> Result<(), StoreError> {
        Ok(self.table.put_all(vec![write(layout::clock_sweep(), "sweep", sweep)?]).await?)
    }

    /// Records that all events of a run that were queued before `until` are processed.
    pub async fn record_processed(
        &self,
        id: AgentSessionId,
        run: RunId,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let item = write(layout::processed(id), "processed", &Processed { run, until })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// Time up to which the queued events of a run are known to be processed.
    pub async fn processed_until(
        &self,
        id: AgentSessionId,
        run: RunId,
    ) -> Result<Option<Timestamp>, StoreError> {
        let processed = self.load::<Processed>(&layout::processed(id)).await?;
        Ok(processed.filter(|processed| processed.value.run == run).map(|processed| processed.value.until))
    }
}
