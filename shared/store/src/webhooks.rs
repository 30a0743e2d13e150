//! Webhooks and their deliveries.

use pilothouse_domain::webhook::{Delivery, Webhook};
use pilothouse_domain::{Timestamp, UserId, WebhookId};

use crate::commit::{Commit, JOURNAL_KEPT, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store};
use crate::table::{Condition, Position, Query, SortRange, Write};

impl Commit {
    /// A webhook that was registered or changed.
    pub fn webhook(&mut self, webhook: &Loaded<Webhook>) -> Result<(), StoreError> {
        let key = layout::webhook(&webhook.value.owner_id, webhook.value.id);
        self.push(guarded(item(key, "webhook", body(&webhook.value)?), webhook.version), Purpose::Guard);
        Ok(())
    }

    /// Removes a webhook. Its deliveries expire by themselves.
    pub fn remove_webhook(&mut self, webhook: &Loaded<Webhook>) {
        let key = layout::webhook(&webhook.value.owner_id, webhook.value.id);
        self.push(Write::Delete(key, Condition::Version(webhook.version)), Purpose::Guard);
    }

    /// What became of a delivery.
    pub fn delivery(
        &mut self,
        webhook: WebhookId,
        delivery: &Loaded<Delivery>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = layout::delivery(webhook, delivery.value.sequence);
        let mut row = item(key, "delivery", body(&delivery.value)?);
        row.expires_at = Some(now + JOURNAL_KEPT);
        self.push(guarded(row, delivery.version), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// The webhooks of an owner: [`Webhook::MAX_PER_OWNER`] at most.
    pub async fn webhooks(&self, owner: &UserId) -> Result<Vec<Webhook>, StoreError> {
        let (mut webhooks, mut after) = (Vec::new(), None);
        loop {
            let listing = self.list(within(layout::webhooks_partition(owner), false, 100, after)).await?;
            webhooks.extend(listing.items);
            after = listing.next;
            if after.is_none() {
                return Ok(webhooks);
            }
        }
    }

    /// One webhook of an owner.
    pub async fn webhook(
        &self,
        owner: &UserId,
        id: WebhookId,
    ) -> Result<Option<Loaded<Webhook>>, StoreError> {
        self.load(&layout::webhook(owner, id)).await
    }

    /// What became of telling a webhook of one announcement.
    pub async fn delivery(
        &self,
        webhook: WebhookId,
        sequence: u64,
    ) -> Result<Option<Loaded<Delivery>>, StoreError> {
        self.load(&layout::delivery(webhook, sequence)).await
    }

    /// The deliveries of a webhook, newest first.
    pub async fn deliveries(
        &self,
        webhook: WebhookId,
        limit: usize,
        after: Option<Position>,
    ) -> Result<Listing<Delivery>, StoreError> {
        self.list(within(layout::deliveries_partition(webhook), true, limit, after)).await
    }
}

fn within(partition: String, descending: bool, limit: usize, after: Option<Position>) -> Query {
    Query { index: None, partition, range: SortRange::All, descending, limit, after }
}
