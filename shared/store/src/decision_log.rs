//! The decision log of a project (decision 75). Each entry is a separate item, so that agents of one project never write the same
//! item.

use pilothouse_domain::decision::{DecisionLogEntry, LoggedDecision};
use pilothouse_domain::{ProjectId, Timestamp, VerdictId};

use crate::commit::{Commit, Purpose, body, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store};
use crate::table::{Condition, Index, Position, Query, Write};

impl Commit {
    /// Adds an entry. Writing one again replaces it.
    pub fn log_decision(&mut self, entry: &DecisionLogEntry) -> Result<(), StoreError> {
        let mut row = item(layout::logged_decision(&entry.logged.key()), "logged-decision", body(entry)?);
        row.listing = Some(layout::listed_decision_log(entry));
        self.retain(&mut row, entry.at);
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        Ok(())
    }
}

impl Store {
    /// The entry of a verdict.
    pub async fn logged_verdict(&self, id: VerdictId) -> Result<Option<DecisionLogEntry>, StoreError> {
        let key = layout::logged_decision(&LoggedDecision::verdict_key(id));
        Ok(self.load(&key).await?.map(|loaded| loaded.value))
    }

    /// The entries of a project from `since` until before `until`, the latest first.
    pub async fn decision_log(
        &self,
        project: ProjectId,
        (since, until): (Option<Timestamp>, Option<Timestamp>),
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<DecisionLogEntry>, StoreError> {
        let query = Query {
            index: Some(Index::Listing),
            partition: layout::decision_log_partition(project),
            range: layout::logged_between(since, until),
            descending: true,
            limit,
            after,
        };
        self.list(query).await
    }
}
