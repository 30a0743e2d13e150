//! Aggregates of an owner beside sessions: loading, listing and committing them (S0 8.8: the repositories of chains,
//! skills and templates).

use pilothouse_domain::owned::{OwnedAggregate, OwnedEntry};
use pilothouse_domain::{Timestamp, UserId};
use pilothouse_wire::keys::sha256_hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Purpose, guarded};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, read, write};
use crate::table::{Condition, Index, Item, Position, Query, SortRange, Write};

/// An aggregate as it was loaded, with what is needed to see what changed.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedOwned<A> {
    /// The aggregate, to be changed.
    pub value: A,
    /// Its version in the table; 0: it is not there yet.
    pub version: u64,
    name_before: Option<String>,
}

impl<A: OwnedAggregate> LoadedOwned<A> {
    /// One that is not in the table yet.
    pub const fn new(value: A) -> Self {
        Self { value, version: 0, name_before: None }
    }

    fn loaded(value: A, version: u64) -> Self {
        let name_before = value.unique_name().map(str::to_owned);
        Self { value, version, name_before }
    }

    /// The version that the next commit gives it.
    pub const fn next_version(&self) -> u64 {
        self.version + 1
    }
}

/// Names an aggregate without its type: what the Due index and the reactions know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnedRef {
    /// [`OwnedAggregate::KIND`].
    pub kind: String,
    /// Its id.
    pub id: String,
}

/// Who has a name.
#[derive(Serialize, Deserialize)]
struct Named {
    id: String,
}

impl Store {
    /// An aggregate of `owner`, to be read or changed. Another owner's is not there.
    pub async fn owned<A: OwnedAggregate>(
        &self,
        owner: &UserId,
        id: A::Id,
    ) -> Result<Option<LoadedOwned<A>>, StoreError> {
        Ok(self.any_owned::<A>(id).await?.filter(|loaded| loaded.value.owner_id() == owner))
    }

    /// The same, whoever owns it: for what the system does by itself.
    pub async fn any_owned<A: OwnedAggregate>(
        &self,
        id: A::Id,
    ) -> Result<Option<LoadedOwned<A>>, StoreError> {
        let loaded = self.load::<A>(&layout::owned(A::KIND, &id.to_string())).await?;
        Ok(loaded.map(|loaded| LoadedOwned::loaded(loaded.value, loaded.version)))
    }

    /// The aggregates of one kind and owner, in the order of [`OwnedAggregate::listing_sort`].
    pub async fn list_owned<A: OwnedAggregate>(
        &self,
        owner: &UserId,
        descending: bool,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<A>, StoreError> {
        let query = Query {
            index: Some(Index::Listing),
            partition: layout::owned_partition(owner, A::KIND),
            range: SortRange::All,
            descending,
            limit,
            after,
        };
        let page = self.table.query(&query).await?;
        Ok(Listing { items: page.items.iter().map(read).collect::<Result<_, _>>()?, next: page.next })
    }

    /// Parts that left an aggregate, of one group, the latest first; those before `before`, if that is given. The caller has
    /// seen that the aggregate is its own.
    pub async fn departed<A: OwnedAggregate, T: DeserializeOwned>(
        &self,
        id: A::Id,
        group: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<T>, StoreError> {
        let place = |part: &str| layout::owned_record(A::KIND, &id.to_string(), group, part);
        let mut after = before.map(&place).map(|key| Position {
            partition: key.partition,
            sort: key.sort,
            index_sort: None,
        });
        let key = place("");
        let mut found = Vec::new();
        // A page also ends at its size, with room left in its limit.
        while found.len() < limit {
            let query = Query {
                index: None,
                partition: key.partition.clone(),
                range: SortRange::Prefix(key.sort.clone()),
                descending: true,
                limit: limit - found.len(),
                after,
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

    /// One part that left an aggregate.
    pub async fn departed_part<A: OwnedAggregate, T: DeserializeOwned>(
        &self,
        id: A::Id,
        group: &str,
        part: &str,
    ) -> Result<Option<T>, StoreError> {
        let key = layout::owned_record(A::KIND, &id.to_string(), group, part);
        Ok(self.load(&key).await?.map(|loaded| loaded.value))
    }

    /// One entry of the journal of an aggregate.
    pub async fn owned_entry(
        &self,
        aggregate: &OwnedRef,
        sequence: u64,
    ) -> Result<Option<OwnedEntry>, StoreError> {
        let key = layout::owned_journal(&aggregate.kind, &aggregate.id, sequence);
        Ok(self.load(&key).await?.map(|loaded| loaded.value))
    }

    /// Aggregates that the clock is to look at by `at`, and when. The index may lag: load and decide.
    pub async fn due_owned(
        &self,
        at: Timestamp,
        limit: usize,
    ) -> Result<Vec<(OwnedRef, Timestamp)>, StoreError> {
        let query = Query {
            index: Some(Index::Due),
            partition: layout::DUE_OWNED.to_owned(),
            range: SortRange::Between(String::new(), layout::due_until(at)),
            descending: false,
            limit,
            after: None,
        };
        let page = self.table.query(&query).await?;
        let place = |item: &Item| layout::owned_of(&item.key).zip(item.due.as_ref().and_then(layout::due_at));
        Ok(page.items.iter().filter_map(place).collect())
    }

    /// Reads an entry of the feed that is of an owned aggregate.
    pub fn read_owned_entry(item: &Item) -> Result<OwnedEntry, StoreError> {
        read(item)
    }
}

impl Commit {
    /// An aggregate under the version that it was loaded with, its name, and its entry of the journal. An entry without
    /// events is left out.
    pub fn owned<A: OwnedAggregate>(
        &mut self,
        loaded: &LoadedOwned<A>,
        entry: &OwnedEntry,
    ) -> Result<(), StoreError> {
        let (aggregate, id) = (&loaded.value, loaded.value.id().to_string());
        let owner = aggregate.owner_id();
        let mut row = write(layout::owned(A::KIND, &id), A::KIND, aggregate)?;
        row.listing = Some(layout::owned_listing(owner, A::KIND, aggregate.listing_sort()));
        row.due = aggregate.due_at().map(|at| layout::owned_due(A::KIND, &id, at));
        self.push(guarded(row, loaded.version), Purpose::Guard);

        let (before, now) = (loaded.name_before.as_deref(), aggregate.unique_name());
        if before != now {
            let place = |name: &str| layout::owned_name(owner, A::KIND, &sha256_hex(name.as_bytes()));
            if let Some(name) = now {
                let taken = write(place(name), "name", &Named { id: id.clone() })?;
                self.push(Write::Put(taken, Condition::Absent), Purpose::Name);
            }
            if let Some(name) = before {
                self.push(Write::Delete(place(name), Condition::Always), Purpose::Record);
            }
        }
        for part in aggregate.departed() {
            let key = layout::owned_record(A::KIND, &id, part.group, &part.id);
            self.push(Write::Put(write(key, "record", &part.value)?, Condition::Always), Purpose::Record);
        }
        if !entry.events.is_empty() {
            let key = layout::owned_journal(A::KIND, &id, entry.sequence);
            let row = write(key, layout::OWNED_JOURNAL, entry)?;
            self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        }
        Ok(())
    }
}
