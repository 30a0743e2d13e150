//! Sessions of runs. Resources that are named after a run only, such as its command queue, are cleaned up through them.

use pilothouse_domain::{AgentSessionId, RunId};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};
use crate::table::{Condition, Write};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RunSession {
    session_id: AgentSessionId,
}

#[derive(Serialize, Deserialize)]
struct SweepPosition {
    after: Option<String>,
}

impl Store {
    /// Records the session of a run, before any resource is named after the run.
    pub async fn record_session_of_run(&self, run: RunId, session: AgentSessionId) -> Result<(), StoreError> {
        let item = write(layout::run_session(run), "run-session", &RunSession { session_id: session })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// The session of a run; `None` if no resource is named after the run any more.
    pub async fn session_of_run(&self, run: RunId) -> Result<Option<AgentSessionId>, StoreError> {
        Ok(self.load::<RunSession>(&layout::run_session(run)).await?.map(|loaded| loaded.value.session_id))
    }

    pub async fn forget_session_of_run(&self, run: RunId) -> Result<(), StoreError> {
        Ok(self.table.transact(vec![Write::Delete(layout::run_session(run), Condition::Always)]).await?)
    }

    /// The queue after which the next sweep continues; `None` to start over.
    pub async fn sweep_position(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load::<SweepPosition>(&layout::sweep()).await?.and_then(|loaded| loaded.value.after))
    }

    pub async fn set_sweep_position(&self, after: Option<String>) -> Result<(), StoreError> {
        Ok(self.table.put_all(vec![write(layout::sweep(), "place", &SweepPosition { after })?]).await?)
    }
}
