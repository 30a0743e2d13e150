//! Decisions of the inbox (decision 74): copies of what waits in sessions, for one list over all sessions of an owner, and free
//! decisions, which guard themselves (decision 81).

use pilothouse_domain::coherence::ResolvedDecision;
use pilothouse_domain::decision::{Decision, DecisionLogEntry, FreeDecision};
use pilothouse_domain::{DecisionId, UserId};

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, read};
use crate::table::{Condition, Index, Item, Position, Query, SortRange, Write};

impl Commit {
    /// Adds a decision that the session opened or ended. The version of the session guards it. Decisions that are over expire with
    /// the records of the agent.
    pub(crate) fn decision(&mut self, decision: &Decision) -> Result<(), StoreError> {
        let mut row = self.decision_item(decision)?;
        if decision.due_at().is_some() {
            // It became free: its version guards it from now on.
            row.version = 1;
        }
        self.push(Write::Put(row, Condition::Always), Purpose::Record);
        self.log_resolution(decision)
    }

    /// Adds a free decision, guarded by its loaded version.
    pub fn free_decision(&mut self, loaded: &Loaded<FreeDecision>) -> Result<(), StoreError> {
        let decision = loaded.value.decision();
        let row = self.decision_item(decision)?;
        self.push(guarded(row, loaded.version), Purpose::Guard);
        self.log_resolution(decision)
    }

    /// Adds the log entry of a decision that was taken, and its choice.
    fn log_resolution(&mut self, decision: &Decision) -> Result<(), StoreError> {
        let Some(entry) = DecisionLogEntry::of_decision(decision) else { return Ok(()) };
        self.log_decision(&entry)?;
        ResolvedDecision::of(decision).map_or(Ok(()), |choice| self.resolved_decision(&choice))
    }

    /// A decision is kept without a limit until it has ended.
    fn decision_item(&mut self, decision: &Decision) -> Result<Item, StoreError> {
        let mut row = item(layout::decision(decision.id), layout::DECISION, body(decision)?);
        row.listing = Some(layout::listed_decision(decision));
        row.due =
            decision.due_at().map(|at| layout::aggregate_due(layout::DECISION, &decision.id.to_string(), at));
        if let Some(at) = decision.state.ended_at() {
            self.retain(&mut row, at);
        }
        Ok(row)
    }
}

impl Store {
    /// Parses an item of the kind [`layout::DECISION`].
    pub fn read_decision(item: &Item) -> Result<Decision, StoreError> {
        read(item)
    }

    /// A free decision of any owner, for the system itself. `None` if a session guards the decision, or did until it was over.
    pub async fn free_decision(&self, id: DecisionId) -> Result<Option<Loaded<FreeDecision>>, StoreError> {
        let Some(loaded) = self.load::<Decision>(&layout::decision(id)).await? else { return Ok(None) };
        let version = loaded.version;
        Ok(FreeDecision::of(loaded.value).ok().map(|value| Loaded { value, version }))
    }

    /// A decision of `owner` with the version of its item.
    pub async fn loaded_decision(
        &self,
        owner: &UserId,
        id: DecisionId,
    ) -> Result<Option<Loaded<Decision>>, StoreError> {
        let loaded = self.load::<Decision>(&layout::decision(id)).await?;
        Ok(loaded.filter(|loaded| loaded.value.owner_id == *owner))
    }

    /// A decision of `owner`. Another owner's decision costs the same read as a missing one.
    pub async fn decision_of(&self, owner: &UserId, id: DecisionId) -> Result<Option<Decision>, StoreError> {
        Ok(self.loaded_decision(owner, id).await?.map(|loaded| loaded.value))
    }

    /// Pending and orphaned decisions of an owner: the most severe first, then those with the largest blast radius, then the oldest.
    pub async fn open_decisions(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Decision>, StoreError> {
        self.list(in_partition(layout::open_decisions_partition(owner), false, limit, after)).await
    }

    /// Decisions of sessions that a brake stops, in the same order.
    pub async fn suspended_decisions(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Decision>, StoreError> {
        self.list(in_partition(layout::suspended_decisions_partition(owner), false, limit, after)).await
    }

    /// Decisions of an owner that are over, the latest first.
    pub async fn ended_decisions(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Decision>, StoreError> {
        self.list(in_partition(layout::ended_decisions_partition(owner), true, limit, after)).await
    }
}

fn in_partition(partition: String, descending: bool, limit: usize, after: Option<Position>) -> Query {
    Query { index: Some(Index::Listing), partition, range: SortRange::All, descending, limit, after }
}
