//! Whose a run is: so that what is named by a run alone, its queue of commands, can be looked after.

use pilothouse_domain::{AgentSessionId, RunId};
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::layout;
use crate::repository::{Store, write};
use crate::table::{Condition, Write};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whose {
    session_id: AgentSessionId,
}

#[derive(Serialize, Deserialize)]
struct Swept {
    after: Option<String>,
}

impl Store {
    /// Remembers the session of a run, before anything that is named by the run is made.
    pub async fn remember_run(&self, run: RunId, session: AgentSessionId) -> Result<(), StoreError> {
        let item = write(layout::whose(run), "whose", &Whose { session_id: session })?;
        Ok(self.table.put_all(vec![item]).await?)
    }

    /// The session of a run; nothing when nothing is named by the run any more.
    pub async fn session_of_run(&self, run: RunId) -> Result<Option<AgentSessionId>, StoreError> {
        Ok(self.load::<Whose>(&layout::whose(run)).await?.map(|loaded| loaded.value.session_id))
    }

    /// Nothing is named by the run any more.
    pub async fn forget_run(&self, run: RunId) -> Result<(), StoreError> {
        Ok(self.table.transact(vec![Write::Delete(layout::whose(run), Condition::Always)]).await?)
    }

    /// The queue after which the next sweep goes on; nothing: at the first.
    pub async fn swept_queue(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load::<Swept>(&layout::sweep()).await?.and_then(|loaded| loaded.value.after))
    }

    /// Keeps where the next sweep goes on.
    pub async fn keep_swept_queue(&self, after: Option<String>) -> Result<(), StoreError> {
        Ok(self.table.put_all(vec![write(layout::sweep(), "place", &Swept { after })?]).await?)
    }
}
