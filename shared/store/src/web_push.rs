//! The browsers of an owner that receive notifications, in one item (decision 98).

use pilothouse_domain::UserId;
use pilothouse_domain::web_push::WebPushSubscriptions;

use crate::commit::{Commit, Loaded, Purpose, body, guarded, item};
use crate::error::StoreError;
use crate::layout;
use crate::repository::Store;

impl Commit {
    pub fn web_push_subscriptions(
        &mut self,
        owner: &UserId,
        subscriptions: &Loaded<WebPushSubscriptions>,
    ) -> Result<(), StoreError> {
        let row = item(layout::web_push_subscriptions(owner), "web-push", body(&subscriptions.value)?);
        self.push(guarded(row, subscriptions.version), Purpose::Guard);
        Ok(())
    }
}

impl Store {
    /// The browsers of an owner that receive notifications.
    pub async fn web_push_subscriptions(
        &self,
        owner: &UserId,
    ) -> Result<Loaded<WebPushSubscriptions>, StoreError> {
        let known = self.load(&layout::web_push_subscriptions(owner)).await?;
        Ok(known.unwrap_or_else(|| Loaded::new(WebPushSubscriptions::default())))
    }
}
