//! Repositories of chains, skills and templates (S0 8.8): loading, listing and committing them.

use pilothouse_domain::Aggregate;
use pilothouse_domain::journal::{AggregateJournalEntry, AnyAggregateEntry};
use pilothouse_domain::{Timestamp, UserId};
use pilothouse_wire::keys::sha256_hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Purpose, guarded};
use crate::error::StoreError;
pub use crate::ids::AggregateRef;
use crate::layout;
use crate::repository::{Listing, Store, read, write};
use crate::table::{Condition, Index, Item, Position, Query, SortRange, Write};

/// A loaded aggregate with its previous name, from which the commit finds a change of name.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedAggregate<A> {
    pub value: A,
    /// 0 if it is not in the table yet.
    pub version: u64,
    name_before: Option<String>,
}

impl<A: Aggregate> LoadedAggregate<A> {
    pub const fn new(value: A) -> Self {
        Self { value, version: 0, name_before: None }
    }

    fn loaded(value: A, version: u64) -> Self {
        let name_before = value.unique_name().map(str::to_owned);
        Self { value, version, name_before }
    }

    pub const fn next_version(&self) -> u64 {
        self.version + 1
    }
}

#[derive(Serialize, Deserialize)]
struct NameReservation {
    id: String,
}

impl Store {
    /// Loads an aggregate of `owner`. Another owner's aggregate costs the same read as a missing one and is not parsed.
    pub async fn aggregate<A: Aggregate>(
        &self,
        owner: &UserId,
        id: A::Id,
    ) -> Result<Option<LoadedAggregate<A>>, StoreError> {
        let key = layout::aggregate(A::KIND, &id.to_string());
        let Some(row) = self.listed_item(key, &layout::aggregate_partition(owner, A::KIND)).await? else {
            return Ok(None);
        };
        let loaded = LoadedAggregate::loaded(read::<A>(row.item())?, row.item().version);
        Ok(Some(loaded).filter(|loaded| loaded.value.owner_id() == owner))
    }

    /// Loads an aggregate of any owner, for the system itself.
    pub async fn any_aggregate<A: Aggregate>(
        &self,
        id: A::Id,
    ) -> Result<Option<LoadedAggregate<A>>, StoreError> {
        let loaded = self.load::<A>(&layout::aggregate(A::KIND, &id.to_string())).await?;
        Ok(loaded.map(|loaded| LoadedAggregate::loaded(loaded.value, loaded.version)))
    }

    /// Aggregates of one kind and owner, in the order of [`Aggregate::listing_sort`].
    pub async fn list_aggregates<A: Aggregate>(
        &self,
        owner: &UserId,
        descending: bool,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<A>, StoreError> {
        self.list_aggregates_in(owner, SortRange::All, descending, limit, after).await
    }

    /// Like [`Self::list_aggregates`], for a range of [`Aggregate::listing_sort`].
    pub(crate) async fn list_aggregates_in<A: Aggregate>(
        &self,
        owner: &UserId,
        range: SortRange,
        descending: bool,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<A>, StoreError> {
        let partition = layout::aggregate_partition(owner, A::KIND);
        self.list(Query { index: Some(Index::Listing), partition, range, descending, limit, after }).await
    }

    /// Removed parts of an aggregate in one group, latest first, starting before `before` if given. The caller has checked the
    /// owner.
    pub async fn archived_parts<A: Aggregate, T: DeserializeOwned>(
        &self,
        id: A::Id,
        group: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<T>, StoreError> {
        let place = |part: &str| layout::archived_part(A::KIND, &id.to_string(), group, part);
        let mut after = before.map(&place).map(|key| Position {
            partition: key.partition,
            sort: key.sort,
            index_sort: None,
        });
        let key = place("");
        let mut found = Vec::new();
        // A page may end at its size before its limit.
        while found.len() < limit {
            let query = Query {
                descending: true,
                after,
                ..Query::new(key.partition.clone(), SortRange::Prefix(key.sort.clone()), limit - found.len())
            };
            let page = self.table.query(&query).await?;
            for item in &page.items {
                found.push(read(item)?);
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        Ok(found)
    }

    pub async fn archived_part<A: Aggregate, T: DeserializeOwned>(
        &self,
        id: A::Id,
        group: &str,
        part: &str,
    ) -> Result<Option<T>, StoreError> {
        let key = layout::archived_part(A::KIND, &id.to_string(), group, part);
        Ok(self.load(&key).await?.map(|loaded| loaded.value))
    }

    pub async fn aggregate_journal_entry(
        &self,
        aggregate: &AggregateRef,
        sequence: u64,
    ) -> Result<Option<AnyAggregateEntry>, StoreError> {
        let key = layout::aggregate_journal(&aggregate.kind, &aggregate.id, sequence);
        Ok(self.load(&key).await?.map(|loaded| loaded.value))
    }

    /// Journal entries of an aggregate. The caller has checked the owner.
    pub async fn aggregate_journal<A: Aggregate>(
        &self,
        id: A::Id,
        descending: bool,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<AggregateJournalEntry<A::Event>>, StoreError> {
        self.list(Query {
            descending,
            after,
            ..Query::new(
                layout::aggregate_journal_partition::<A>(id),
                SortRange::Prefix(layout::JOURNAL_ENTRIES.to_owned()),
                limit,
            )
        })
        .await
    }

    /// Journal entries of an aggregate after the entry `after`, in order. Commits without events have none. A result shorter than
    /// `limit` means that there are no more. The caller has checked the owner.
    pub async fn aggregate_journal_after<A: Aggregate>(
        &self,
        id: A::Id,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AggregateJournalEntry<A::Event>>, StoreError> {
        self.entries_after(layout::aggregate_journal_partition::<A>(id), after, limit).await
    }

    /// Aggregates that are due by `at`, with their due times. The index may lag: load them before deciding.
    pub async fn due_aggregates(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<(AggregateRef, Timestamp)>, StoreError> {
        let query = Query {
            index: Some(Index::Due),
            partition: layout::DUE_AGGREGATES.to_owned(),
            range: SortRange::Between(String::new(), layout::due_until(at)),
            descending: false,
            limit,
            after: None,
        };
        let page = self.table.query(&query).await?;
        let place =
            |item: &Item| layout::aggregate_of(&item.key).zip(item.due.as_ref().and_then(layout::due_at));
        Ok(page.items.iter().filter_map(place).collect())
    }

    /// Parses an entry of the feed that belongs to such an aggregate.
    pub fn read_aggregate_entry(item: &Item) -> Result<AnyAggregateEntry, StoreError> {
        read(item)
    }
}

impl Commit {
    /// Adds an aggregate guarded by its loaded version, its name, its removed parts, and its journal entry if it has events.
    pub fn aggregate<A: Aggregate>(
        &mut self,
        loaded: &LoadedAggregate<A>,
        entry: &AggregateJournalEntry<A::Event>,
    ) -> Result<(), StoreError> {
        let (aggregate, id) = (&loaded.value, loaded.value.id().to_string());
        let owner = aggregate.owner_id();
        let mut row = write(layout::aggregate(A::KIND, &id), A::KIND, aggregate)?;
        row.listing = Some(layout::aggregate_listing(owner, A::KIND, aggregate.listing_sort()));
        row.due = aggregate.due_at().map(|at| layout::aggregate_due(A::KIND, &id, at));
        self.push(guarded(row, loaded.version), Purpose::Guard);

        let (before, now) = (loaded.name_before.as_deref(), aggregate.unique_name());
        if before != now {
            let place = |name: &str| layout::aggregate_name(owner, A::KIND, &sha256_hex(name.as_bytes()));
            if let Some(name) = now {
                let taken = write(place(name), "name", &NameReservation { id: id.clone() })?;
                self.push(Write::Put(taken, Condition::Absent), Purpose::Name);
            }
            if let Some(name) = before {
                self.push(Write::Delete(place(name), Condition::Always), Purpose::Record);
            }
        }
        for part in aggregate.archived_parts() {
            let key = layout::archived_part(A::KIND, &id, part.group, &part.id);
            self.push(Write::Put(write(key, "record", &part.value)?, Condition::Always), Purpose::Record);
        }
        if !entry.events.is_empty() {
            let key = layout::aggregate_journal(A::KIND, &id, entry.sequence);
            let row = write(key, layout::AGGREGATE_JOURNAL, entry)?;
            self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        }
        Ok(())
    }
}
