//! Notifications of an owner in the API.

use pilothouse_domain::announcement::Notification;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message of the live stream of notifications.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NotificationMessage {
    /// The position of the stream after this message. Pass it as `after` to resume.
    pub cursor: String,
    /// The content of the message.
    #[serde(flatten)]
    pub body: NotificationBody,
}

/// The content of a message of the live stream of notifications.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum NotificationBody {
    /// A notification.
    Notification(Notification),
    /// Everything up to the cursor has been sent; all later messages are live.
    CaughtUp {},
}

/// The response to marking all notifications as read.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadNotifications {
    /// The number of notifications that this request marked as read.
    pub read: u64,
    /// Whether unread notifications remain. Repeat the request to mark them, too.
    pub more: bool,
}
