//! What is told beyond sessions: announcements and notifications, numbered per owner without gaps.
//!
//! A journal entry is told once: the commit that tells it also writes what it was told as, and fails when that is there. The
//! numbers are given out by one item an owner, so whoever reads on from a number misses nothing that was told meanwhile.

use std::ops::RangeInclusive;

use pilothouse_domain::announcement::{Announcement, Notification, Telling};
use pilothouse_domain::{EventId, Timestamp, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, JOURNAL_KEPT, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, read};
use crate::table::{Condition, Index, Item, Position, Query, SortRange, Write};

/// How much was told of an owner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedHead {
    /// The last number that was given out; 0: none.
    pub last: u64,
}

/// What a journal entry was told as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Told {
    /// Its first number.
    pub first: u64,
    /// Its last.
    pub last: u64,
}

impl Told {
    /// Its numbers.
    pub const fn numbers(self) -> RangeInclusive<u64> {
        self.first..=self.last
    }
}

fn notification_item(owner: &UserId, notification: &Notification, version: u64) -> Result<Item, StoreError> {
    let key = layout::notification(owner, notification.sequence);
    let mut row = item(key, "notification", body(notification)?);
    row.version = version;
    row.expires_at = Some(notification.at + JOURNAL_KEPT);
    row.listing = notification.read_at.is_none().then(|| layout::unread(owner, notification.sequence));
    Ok(row)
}

impl Commit {
    /// Tells something of an owner, under the next numbers. Returns these.
    pub fn tell(
        &mut self,
        owner: &UserId,
        head: &Loaded<FeedHead>,
        tellings: &[Telling],
    ) -> Result<Told, StoreError> {
        let mut last = head.value.last;
        for telling in tellings {
            last += 1;
            if let Some(announcement) = telling.announcement(last) {
                let mut row = item(layout::announcement(owner, last), "announcement", body(&announcement)?);
                row.expires_at = Some(announcement.at + JOURNAL_KEPT);
                self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
            }
            if let Some(notification) = telling.notification(last) {
                let row = notification_item(owner, &notification, 1)?;
                self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
            }
        }
        let row = item(layout::feed(owner), "feed", body(&FeedHead { last })?);
        self.push(guarded(row, head.version), Purpose::Guard);
        Ok(Told { first: head.value.last + 1, last })
    }

    /// A journal entry was told. The commit conflicts if it was told before.
    pub fn told(
        &mut self,
        owner: &UserId,
        entry: EventId,
        told: Told,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::told(owner, entry), "told", body(&told)?);
        row.expires_at = Some(now + JOURNAL_KEPT);
        self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        Ok(())
    }

    /// A notification that was changed.
    pub fn notification(
        &mut self,
        owner: &UserId,
        notification: &Loaded<Notification>,
    ) -> Result<(), StoreError> {
        let row = notification_item(owner, &notification.value, notification.version + 1)?;
        self.push(Write::Put(row, Condition::Version(notification.version)), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// How much was told of an owner.
    pub async fn feed(&self, owner: &UserId) -> Result<Loaded<FeedHead>, StoreError> {
        Ok(self.load(&layout::feed(owner)).await?.unwrap_or_else(|| Loaded::new(FeedHead::default())))
    }

    /// What a journal entry was told as; nothing: it was not told yet.
    pub async fn told(&self, owner: &UserId, entry: EventId) -> Result<Option<Told>, StoreError> {
        Ok(self.load(&layout::told(owner, entry)).await?.map(|loaded| loaded.value))
    }

    /// What others were told of an owner after a number, oldest first. Numbers may be missing: of notifications alone, and
    /// of announcements that have expired.
    pub async fn announcements(
        &self,
        owner: &UserId,
        after: u64,
        limit: usize,
    ) -> Result<Listing<Announcement>, StoreError> {
        self.some_of(numbered(owner, layout::ANNOUNCEMENTS, after, limit)).await
    }

    /// What an owner was notified of after a number, oldest first.
    pub async fn notifications_after(
        &self,
        owner: &UserId,
        after: u64,
        limit: usize,
    ) -> Result<Listing<Notification>, StoreError> {
        self.some_of(numbered(owner, layout::NOTIFICATIONS, after, limit)).await
    }

    /// A page with something in it, unless there is nothing more: one of expired items alone is empty, and who goes on from
    /// its last item would never get past it.
    async fn some_of<T: DeserializeOwned>(&self, mut query: Query) -> Result<Listing<T>, StoreError> {
        loop {
            let listing = self.list(query.clone()).await?;
            if !listing.items.is_empty() || listing.next.is_none() {
                return Ok(listing);
            }
            query.after = listing.next;
        }
    }

    /// One announcement.
    pub async fn announcement(
        &self,
        owner: &UserId,
        sequence: u64,
    ) -> Result<Option<Announcement>, StoreError> {
        Ok(self.load(&layout::announcement(owner, sequence)).await?.map(|loaded| loaded.value))
    }

    /// One notification.
    pub async fn notification(
        &self,
        owner: &UserId,
        sequence: u64,
    ) -> Result<Option<Loaded<Notification>>, StoreError> {
        self.load(&layout::notification(owner, sequence)).await
    }

    /// What an owner was notified of, newest first.
    pub async fn notifications(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Notification>, StoreError> {
        self.list(Query {
            index: None,
            partition: layout::feed_partition(owner),
            range: SortRange::Prefix(layout::NOTIFICATIONS.to_owned()),
            descending: true,
            limit,
            after,
        })
        .await
    }

    /// The same, as far as it was not read, with the versions. The index may lag.
    pub async fn unread(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Loaded<Notification>>, StoreError> {
        let query = Query {
            index: Some(Index::Listing),
            partition: layout::unread_partition(owner),
            range: SortRange::All,
            descending: true,
            limit,
            after,
        };
        let page = self.table.query(&query).await?;
        let loaded = page.items.iter().map(|item| Ok(Loaded { value: read(item)?, version: item.version }));
        Ok(Listing { items: loaded.collect::<Result<_, StoreError>>()?, next: page.next })
    }
}

fn numbered(owner: &UserId, prefix: &str, after: u64, limit: usize) -> Query {
    let place = |sequence: u64| format!("{prefix}{sequence:016}");
    let first = after.saturating_add(1).min(layout::MAX_SEQUENCE);
    Query {
        index: None,
        partition: layout::feed_partition(owner),
        range: SortRange::Between(place(first), place(layout::MAX_SEQUENCE)),
        descending: false,
        limit,
        after: None,
    }
}
