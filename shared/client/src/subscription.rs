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
    renewal: Renewal,
}

/// When a subscription was sent last, and whether it was confirmed.
#[derive(Debug)]
pub(super) struct Renewal {
    sent_at: Instant,
    is_confirmed: bool,
}

impl Renewal {
    pub(super) fn new() -> Self {
        Self { sent_at: Instant::now(), is_confirmed: true }
    }

    /// Whether to subscribe again. Fails if the last subscription was not confirmed in time.
    pub(super) fn is_due(&self) -> Result<bool, ApiError> {
        if !self.is_confirmed && self.sent_at.elapsed() >= CONFIRM_WITHIN {
            return Err(ApiError::Stream("the subscription was not answered".into()));
        }
        Ok(self.sent_at.elapsed() >= RENEW_EVERY)
    }

    /// The text of a subscription that is sent now.
    pub(super) fn request(&mut self, subscribe: &Subscribe) -> Result<String, ApiError> {
        *self = Self { sent_at: Instant::now(), is_confirmed: false };
        serde_json::to_string(subscribe).map_err(ApiError::Encode)
    }

    pub(super) const fn confirm(&mut self) {
        self.is_confirmed = true;
    }
}

#[derive(Deserialize)]
struct Notice {
    message: String,
}

impl Subscription {
    pub(super) fn new(session: AgentSessionId, after: Option<&str>) -> Self {
        let after = after.map(str::to_owned);
        Self { session, after, caught_up: false, renewal: Renewal::new() }
    }

    pub(super) fn needs_renewal(&self) -> Result<bool, ApiError> {
        self.renewal.is_due()
    }

    pub(super) fn request(&mut self) -> Result<String, ApiError> {
        self.renewal.request(&Subscribe {
            action: SubscribeAction::Subscribe,
            session_id: Some(self.session),
            project_id: None,
            topic: None,
            after: self.after.clone(),
        })
    }

    /// Parses a frame. Returns its message, unless it is a repetition.
    pub(super) fn accept(&mut self, text: &str) -> Result<Option<StreamMessage>, ApiError> {
        let message: StreamMessage = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(source) => return Err(error_from_frame(text, source)),
        };
        self.renewal.confirm();
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
pub(super) fn error_from_frame(text: &str, source: serde_json::Error) -> ApiError {
    match serde_json::from_str(text) {
        // The token expired: a new connection with a new token continues.
        Ok(SubscriptionResponse::Problem(problem)) if problem.status == 401 => {
            ApiError::Stream(problem.detail)
        }
        Ok(SubscriptionResponse::Problem(problem)) => ApiError::Problem(Box::new(problem)),
        Ok(SubscriptionResponse::Subscribed {}) | Err(_) => match serde_json::from_str::<Notice>(text) {
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
        assert!(!subscription.needs_renewal().unwrap());
        advance(Duration::from_mins(2)).await;
        assert!(subscription.needs_renewal().unwrap());
        let sent: Value = serde_json::from_str(&subscription.request().unwrap()).unwrap();
        assert_eq!((sent["action"].as_str(), sent["after"].as_str()), (Some("subscribe"), Some("j4")));
        assert!(!subscription.needs_renewal().unwrap());
        assert!(subscription.accept(&caught_up("j4")).unwrap().is_none(), "a repetition");
        advance(Duration::from_mins(1)).await;
        assert!(subscription.needs_renewal().is_ok(), "a repetition confirms, too");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unconfirmed_subscription_becomes_overdue() {
        let mut subscription = subscription(Some("j4"));
        subscription.request().unwrap();
        advance(Duration::from_secs(44)).await;
        assert!(subscription.needs_renewal().is_ok());
        advance(Duration::from_secs(2)).await;
        assert!(subscription.needs_renewal().is_err());
        assert!(subscription.accept(&message("j4")).unwrap().is_none());
        assert!(subscription.needs_renewal().is_ok(), "a repetition confirms, too");
    }
}
