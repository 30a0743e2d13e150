//! Tasks and learnings that agents record, and the rate limit of their API calls.

use pilothouse_domain::agent_api::{AgentItem, AgentLearning, AgentTask};
use pilothouse_domain::{AgentSessionId, RateGauge, UserId};

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store};
use crate::table::{Condition, Index, Position, Query, SortRange, Write};

impl Commit {
    pub fn agent_item(&mut self, left: &AgentItem) -> Result<(), StoreError> {
        let row = match left {
            AgentItem::Task(task) => item(layout::task(task.session_id, task.id), "task", body(task)?),
            AgentItem::Learning(learning) => {
                let key = layout::learning(learning.session_id, learning.id);
                let mut row = item(key, "learning", body(learning)?);
                row.listing = Some(layout::listed_learning(&learning.owner_id, learning.id));
                row
            }
        };
        self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        Ok(())
    }

    pub fn calls(&mut self, id: AgentSessionId, gauge: &Loaded<RateGauge>) -> Result<(), StoreError> {
        let mut row = item(layout::calls(id), "calls", body(&gauge.value)?);
        row.expires_at = Some(gauge.value.empty_at());
        self.push(guarded(row, gauge.version), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    pub async fn calls(&self, id: AgentSessionId) -> Result<Loaded<RateGauge>, StoreError> {
        Ok(self.load(&layout::calls(id)).await?.unwrap_or_else(|| Loaded::new(RateGauge::default())))
    }

    /// Tasks that a session's agent created, oldest first.
    pub async fn agent_tasks(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AgentTask>, StoreError> {
        self.list(within_session(id, layout::TASKS, limit, after)).await
    }

    /// Learnings of a session's agent, oldest first.
    pub async fn learnings_of_session(
        &self,
        id: AgentSessionId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AgentLearning>, StoreError> {
        self.list(within_session(id, layout::LEARNINGS, limit, after)).await
    }

    /// Learnings of all agents of an owner, newest first.
    pub async fn learnings(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AgentLearning>, StoreError> {
        self.list(Query {
            index: Some(Index::Listing),
            partition: layout::learnings_partition(owner),
            range: SortRange::All,
            descending: true,
            limit,
            after,
        })
        .await
    }
}

fn within_session(id: AgentSessionId, prefix: &str, limit: usize, after: Option<Position>) -> Query {
    Query { after, ..Query::new(layout::session_partition(id), SortRange::Prefix(prefix.to_owned()), limit) }
}
