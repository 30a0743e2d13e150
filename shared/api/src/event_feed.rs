//! The event feed: announcements for other systems.

use pilothouse_domain::announcement::Announcement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A page of the event feed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnouncementPage {
    /// The announcements, oldest first.
    pub items: Vec<Announcement>,
    /// The cursor to pass as `after` in the next request, now or later.
    pub cursor: String,
    /// Whether more announcements are available now.
    pub more: bool,
}
