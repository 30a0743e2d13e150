//! Subscription to a session on a WebSocket API of API Gateway.
//!
//! All sessions share one address, so the client names its session on the connection. The API delivers messages in order and
//! at least once; a [`Subscription`] drops repeated ones, so that a reader gets what the embedded server sends.

use std::time::Duration;

use pilothouse_api::stream::{
    StreamBody, StreamMessage, Subscribe, SubscribeAction, SubscriptionResponse, parse_cursor,
};
use pilothouse_domain::AgentSessionId;
use serde::Deserialize;
use tokio::time::Instant;

use super::ApiError;

/// API Gateway closes a connection that is idle for ten minutes. A new subscription keeps it open, and the response shows
/// that the connection works in both directions.
const RENEW_EVERY: Duration = Duration::from_mins(4);
/// A connection is broken if a subscription is not confirmed in this time.
const CONFIRM_WITHIN: Duration = Duration::from_secs(45);

#[derive(Debug)]
pub(super) struct Subscription {
    session: AgentSessionId,
    after: Option<String>,
    caught_up: bool,
    sent_at: Instant,
    is_confirmed: bool,
}

#[derive(Deserialize)]
struct Notice {
    message: String,
}

impl Subscription {
    pub(super) fn new(session: AgentSessionId, after: Option<&str>) -> Self {
        let after = after.map(str::to_owned);
        Self { session, after, caught_up: false, sent_at: Instant::now(), is_confirmed: true }
    }

    /// Whether to subscribe again.
    pub(super) fn needs_renewal(&self) -> bool {
        self.sent_at.elapsed() >= RENEW_EVERY
    }

    pub(super) fn is_overdue(&self) -> bool {
        !self.is_confirmed && self.sent_at.elapsed() >= CONFIRM_WITHIN
    }

    pub(super) fn request(&mut self) -> Result<String, ApiError> {
        self.sent_at = Instant::now();
        self.is_confirmed = false;
        let subscribe = Subscribe {
            action: SubscribeAction::Subscribe,
            session_id: self.session,
            after: self.after.clone(),
        };
        serde_json::to_string(&subscribe).map_err(ApiError::Encode)
    }

    /// Parses a frame. Returns its message, unless it is a repetition.
    pub(super) fn accept(&mut self, text: &str) -> Result<Option<StreamMessage>, ApiError> {
        let message: StreamMessage = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(source) => return Err(error_from_frame(text, source)),
        };
        self.is_confirmed = true;
        if matches!(message.body, StreamBody::CaughtUp {}) {
            // Each subscription sends `caught_up` again; return only the first.
            return Ok((!std::mem::replace(&mut self.caught_up, true)).then_some(message));
        }
        let seen = self.after.as_deref().and_then(parse_cursor).unwrap_or_default();
        if parse_cursor(&message.cursor).is_some_and(|place| place <= seen) {
            return Ok(None);
        }
        self.after = Some(message.cursor.clone());
        Ok(Some(message))
    }
}

/// The error for a frame that is not a message of the stream.
fn error_from_frame(text: &str, source: serde_json::Error) -> ApiError {
    match serde_json::from_str(text) {
        // The token expired: a new connection with a new token continues.
        Ok(SubscriptionResponse::Problem(problem)) if problem.status == 401 => {
            ApiError::Stream(problem.detail)
        }
        Ok(SubscriptionResponse::Problem(problem)) => ApiError::Problem(Box::new(problem)),
        Err(_) => match serde_json::from_str::<Notice>(text) {
            Ok(notice) => ApiError::Stream(notice.message),
            Err(_) => ApiError::Decode { status: 101, source },
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;

    fn subscription(after: Option<&str>) -> Subscription {
        Subscription::new("0197b1c0-0000-7000-8000-000000000001".parse().unwrap(), after)
    }

    fn caught_up(cursor: &str) -> String {
        json!({ "cursor": cursor, "type": "caught_up", "data": {} }).to_string()
    }

    fn message(cursor: &str) -> String {
        json!({ "cursor": cursor, "type": "queue", "data": { "event": "e" } }).to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_renews_its_subscription() {
        let mut subscription = subscription(None);
        subscription.request().unwrap();
        assert!(subscription.accept(&message("j4")).unwrap().is_some());
        assert!(subscription.accept(&caught_up("j4")).unwrap().is_some());
        advance(Duration::from_mins(3)).await;
        assert!(!subscription.needs_renewal() && !subscription.is_overdue());
        advance(Duration::from_mins(2)).await;
        assert!(subscription.needs_renewal() && !subscription.is_overdue());
        let sent: Value = serde_json::from_str(&subscription.request().unwrap()).unwrap();
        assert_eq!((sent["action"].as_str(), sent["after"].as_str()), (Some("subscribe"), Some("j4")));
        assert!(!subscription.needs_renewal());
        assert!(subscription.accept(&caught_up("j4")).unwrap().is_none(), "a repetition");
        advance(Duration::from_mins(1)).await;
        assert!(!subscription.is_overdue(), "a repetition confirms, too");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unconfirmed_subscription_becomes_overdue() {
        let mut subscription = subscription(Some("j4"));
        subscription.request().unwrap();
        advance(Duration::from_secs(44)).await;
        assert!(!subscription.is_overdue());
        advance(Duration::from_secs(2)).await;
        assert!(subscription.is_overdue());
        assert!(subscription.accept(&message("j4")).unwrap().is_none());
        assert!(!subscription.is_overdue(), "a repetition confirms, too");
    }
}
