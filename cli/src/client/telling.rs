//! What agents leave behind, raw events, exports, and what an owner is told.

use pilothouse_domain::AgentSessionId;
use pilothouse_domain::agent_api::AgentTask;
use pilothouse_domain::announcement::Notification;
use pilothouse_functions::api::Page;
use pilothouse_functions::api::records::RawEventView;
use pilothouse_functions::api::telling::ReadNotifications;
use serde_json::Value;

use super::inputs::Slice;
use super::sessions::of;
use super::{ApiError, Client};

const NOTIFICATIONS: &str = "api/notifications";

impl Client {
    /// A page of the tasks that a session's agent created, oldest first.
    pub async fn tasks(&self, id: AgentSessionId, slice: &Slice) -> Result<Page<AgentTask>, ApiError> {
        self.get_with(of(id, "/tasks"), slice.query()).await
    }

    /// A page of the raw events of a session: from a place in its journal, or of one run from a sequence of that.
    pub async fn raw_events(
        &self,
        id: AgentSessionId,
        from: Option<u64>,
        run: Option<&str>,
        slice: &Slice,
    ) -> Result<Page<RawEventView>, ApiError> {
        let mut query = slice.query();
        query.extend(from.map(|from| ("from", from.to_string())));
        query.extend(run.map(|run| ("run", run.to_owned())));
        self.get_with(of(id, "/events"), query).await
    }

    /// A session as one document, wherever the server has it stand.
    pub async fn export(&self, id: AgentSessionId) -> Result<Value, ApiError> {
        self.get(of(id, "/export")).await
    }

    /// A page of what the owner was notified of, newest first.
    pub async fn notifications(&self, unread: bool, slice: &Slice) -> Result<Page<Notification>, ApiError> {
        let mut query = slice.query();
        query.extend(unread.then(|| ("unread", "true".to_owned())));
        self.get_with(NOTIFICATIONS.to_owned(), query).await
    }

    /// Marks all notifications as read, a part at a time.
    pub async fn read_notifications(&self) -> Result<ReadNotifications, ApiError> {
        self.post(format!("{NOTIFICATIONS}/read"), &serde_json::json!({})).await
    }
}
