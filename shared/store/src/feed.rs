//! The event feed of each owner: announcements and notifications, numbered without gaps.
//!
//! A journal entry is published once: the commit that publishes it also writes a record of its numbers, and fails if that record
//! exists. One item for each owner allocates the numbers, so that a reader that continues from a number misses nothing.

use std::ops::RangeInclusive;

use pilothouse_domain::announcement::{Announcement, FeedEntry, Notification};
use pilothouse_domain::{EventId, Timestamp, UserId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store, read};
use crate::table::{Condition, Index, Item, Position, Query, SortRange, Write};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedHead {
    /// 0 if no number was allocated yet.
    pub last: u64,
}

/// Numbers under which a journal entry was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedRange {
    pub first: u64,
    pub last: u64,
}

impl PublishedRange {
    /// The numbers of the next `count` feed entries.
    pub const fn after(last: u64, count: usize) -> Self {
        Self { first: last + 1, last: last + count as u64 }
    }

    pub const fn numbers(self) -> RangeInclusive<u64> {
        self.first..=self.last
    }
}

fn notification_item(owner: &UserId, notification: &Notification, version: u64) -> Result<Item, StoreError> {
    let key = layout::notification(owner, notification.sequence);
    let mut row = item(key, "notification", body(notification)?);
    row.version = version;
    row.listing = notification.read_at.is_none().then(|| layout::unread(owner, notification.sequence));
    Ok(row)
}

impl Commit {
    /// Publishes events of an owner under the next numbers, and returns the numbers.
    pub fn publish<'a>(
        &mut self,
        owner: &UserId,
        head: &Loaded<FeedHead>,
        feed_entries: impl IntoIterator<Item = &'a FeedEntry>,
    ) -> Result<PublishedRange, StoreError> {
        let mut last = head.value.last;
        for feed_entry in feed_entries {
            last += 1;
            if let Some(announcement) = feed_entry.announcement(last) {
                let mut row = item(layout::announcement(owner, last), "announcement", body(&announcement)?);
                self.retain(&mut row, announcement.at);
                self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
            }
            if let Some(notification) = feed_entry.notification(last) {
                let mut row = notification_item(owner, &notification, 1)?;
                self.retain(&mut row, notification.at);
                self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
            }
        }
        let row = item(layout::feed(owner), "feed", body(&FeedHead { last })?);
        self.push(guarded(row, head.version), Purpose::Guard);
        Ok(PublishedRange { first: head.value.last + 1, last })
    }

    /// Records that a journal entry was published. The commit conflicts if it was published before.
    pub fn published_range(
        &mut self,
        owner: &UserId,
        entry: EventId,
        published_range: PublishedRange,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut row = item(layout::published_range(owner, entry), "published", body(&published_range)?);
        self.retain(&mut row, now);
        self.push(Write::Put(row, Condition::Absent), Purpose::Guard);
        Ok(())
    }

    pub fn notification(
        &mut self,
        owner: &UserId,
        notification: &Loaded<Notification>,
    ) -> Result<(), StoreError> {
        let mut row = notification_item(owner, &notification.value, notification.version + 1)?;
        self.retain(&mut row, notification.value.at);
        self.push(Write::Put(row, Condition::Version(notification.version)), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    pub async fn feed(&self, owner: &UserId) -> Result<Loaded<FeedHead>, StoreError> {
        Ok(self.load(&layout::feed(owner)).await?.unwrap_or_else(|| Loaded::new(FeedHead::default())))
    }

    /// Numbers under which a journal entry was published; `None` if it was not published yet.
    pub async fn published_range(
        &self,
        owner: &UserId,
        entry: EventId,
    ) -> Result<Option<PublishedRange>, StoreError> {
        Ok(self.load(&layout::published_range(owner, entry)).await?.map(|loaded| loaded.value))
    }

    /// Announcements of an owner after a number, oldest first. Numbers are missing where there is only a notification, or where
    /// announcements expired.
    pub async fn announcements(
        &self,
        owner: &UserId,
        after: u64,
        limit: usize,
    ) -> Result<Listing<Announcement>, StoreError> {
        self.non_empty_page(feed_range(owner, layout::ANNOUNCEMENTS, after, limit)).await
    }

    /// Notifications of an owner after a number, oldest first.
    pub async fn notifications_after(
        &self,
        owner: &UserId,
        after: u64,
        limit: usize,
    ) -> Result<Listing<Notification>, StoreError> {
        self.non_empty_page(feed_range(owner, layout::NOTIFICATIONS, after, limit)).await
    }

    /// Returns a page with at least one item, unless there are no more. A page of expired items is empty, and a reader that
    /// continues from its last item would never get past it.
    async fn non_empty_page<T: DeserializeOwned>(&self, mut query: Query) -> Result<Listing<T>, StoreError> {
        loop {
            let listing = self.list(query.clone()).await?;
            if !listing.items.is_empty() || listing.next.is_none() {
                return Ok(listing);
            }
            query.after = listing.next;
        }
    }

    pub async fn announcement(
        &self,
        owner: &UserId,
        sequence: u64,
    ) -> Result<Option<Announcement>, StoreError> {
        Ok(self.load(&layout::announcement(owner, sequence)).await?.map(|loaded| loaded.value))
    }

    pub async fn notification(
        &self,
        owner: &UserId,
        sequence: u64,
    ) -> Result<Option<Loaded<Notification>>, StoreError> {
        self.load(&layout::notification(owner, sequence)).await
    }

    /// Notifications of an owner, newest first.
    pub async fn notifications(
        &self,
        owner: &UserId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Notification>, StoreError> {
        self.list(Query {
            descending: true,
            after,
            ..Query::new(
                layout::feed_partition(owner),
                SortRange::Prefix(layout::NOTIFICATIONS.to_owned()),
                limit,
            )
        })
        .await
    }

    /// Unread notifications of an owner with their versions, newest first. The index may lag.
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

fn feed_range(owner: &UserId, prefix: &str, after: u64, limit: usize) -> Query {
    let place = |sequence: u64| format!("{prefix}{sequence:016}");
    let first = after.saturating_add(1).min(layout::MAX_SEQUENCE);
    Query::new(
        layout::feed_partition(owner),
        SortRange::Between(place(first), place(layout::MAX_SEQUENCE)),
        limit,
    )
}
