//! What is told, over the API: the feed, notifications, webhooks.

use pilothouse_domain::announcement::{Announcement, Notification};
use pilothouse_domain::webhook::Webhook;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of the feed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncementPage {
    /// Announcements, oldest first.
    pub items: Vec<Announcement>,
    /// Goes on from here, now or later.
    pub cursor: String,
    /// Whether there are more already.
    pub more: bool,
}

/// A message of the live stream of notifications.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationMessage {
    /// Where the stream stands after this message.
    pub cursor: String,
    /// What it says.
    #[serde(flatten)]
    pub body: NotificationBody,
}

/// What a message of the live stream of notifications says.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum NotificationBody {
    /// A notification.
    Notification(Notification),
    /// Everything up to the cursor has been sent; what follows is live.
    CaughtUp {},
}

/// What reading all notifications answers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadNotifications {
    /// How many were read by this.
    pub read: u64,
    /// Whether there are more unread ones: ask again.
    pub more: bool,
}

/// What registering a webhook answers.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisteredWebhook {
    /// The webhook.
    pub webhook: Webhook,
    /// What its deliveries are signed with; shown this once.
    #[serde(default)]
    pub secret: String,
}

/// The webhooks of an owner.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhooksView {
    /// All of them.
    pub items: Vec<Webhook>,
}
