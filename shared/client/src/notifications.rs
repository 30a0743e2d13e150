//! Notifications of the owner.

use pilothouse_api::Page;
use pilothouse_api::notifications::ReadNotifications;
use pilothouse_domain::announcement::Notification;

use super::inputs::PageQuery;
use super::{ApiError, Client};

const NOTIFICATIONS: &str = "api/notifications";

impl Client {
    /// Lists a page of the owner's notifications, newest first.
    pub async fn notifications(
        &self,
        unread: bool,
        page_query: &PageQuery,
    ) -> Result<Page<Notification>, ApiError> {
        let mut query = page_query.query();
        query.extend(unread.then(|| ("unread", "true".to_owned())));
        self.get_with(NOTIFICATIONS.to_owned(), query).await
    }

    /// Marks notifications as read, as many as one request handles.
    pub async fn read_notifications(&self) -> Result<ReadNotifications, ApiError> {
        self.post(format!("{NOTIFICATIONS}/read"), &serde_json::json!({})).await
    }
}
