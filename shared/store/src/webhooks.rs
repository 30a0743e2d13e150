use pilothouse_domain::webhook::{Delivery, Webhook};
use pilothouse_domain::{Timestamp, UserId, WebhookId};
use serde::{Deserialize, Serialize};

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::{Listing, Store};
use crate::table::{Condition, Position, Query, SortRange, Write};

/// Guards the number of an owner's webhooks, by making concurrent registrations conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhooksGuard {}

impl Commit {
    pub fn webhook(&mut self, webhook: &Loaded<Webhook>) -> Result<(), StoreError> {
        let key = layout::webhook(&webhook.value.owner_id, webhook.value.id);
        self.push(guarded(item(key, "webhook", body(&webhook.value)?), webhook.version), Purpose::Guard);
        Ok(())
    }

    /// Lets the commit fail if another webhook was registered since `guard` was loaded.
    pub fn webhooks_guard(
        &mut self,
        owner: &UserId,
        guard: &Loaded<WebhooksGuard>,
    ) -> Result<(), StoreError> {
        let row = item(layout::webhooks_guard(owner), "webhooks-guard", body(&guard.value)?);
        self.push(guarded(row, guard.version), Purpose::Guard);
        Ok(())
    }

    /// Removes a webhook. Its deliveries expire.
    pub fn remove_webhook(&mut self, webhook: &Loaded<Webhook>) {
        let key = layout::webhook(&webhook.value.owner_id, webhook.value.id);
        self.push(Write::Delete(key, Condition::Version(webhook.version)), Purpose::Guard);
    }

    pub fn delivery(
        &mut self,
        webhook: WebhookId,
        delivery: &Loaded<Delivery>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = layout::delivery(webhook, delivery.value.sequence);
        let mut row = item(key, "delivery", body(&delivery.value)?);
        self.retain(&mut row, now);
        self.push(guarded(row, delivery.version), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// Webhooks of an owner, at most [`Webhook::MAX_PER_OWNER`].
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

    /// Load the guard before counting the webhooks.
    pub async fn webhooks_guard(&self, owner: &UserId) -> Result<Loaded<WebhooksGuard>, StoreError> {
        Ok(self.load(&layout::webhooks_guard(owner)).await?.unwrap_or(Loaded::new(WebhooksGuard {})))
    }

    pub async fn webhook(
        &self,
        owner: &UserId,
        id: WebhookId,
    ) -> Result<Option<Loaded<Webhook>>, StoreError> {
        self.load(&layout::webhook(owner, id)).await
    }

    pub async fn delivery(
        &self,
        webhook: WebhookId,
        sequence: u64,
    ) -> Result<Option<Loaded<Delivery>>, StoreError> {
        self.load(&layout::delivery(webhook, sequence)).await
    }

    /// Deliveries of a webhook, newest first.
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
