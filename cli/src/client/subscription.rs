//! Following a session on a WebSocket API of API Gateway: what to say there, what to take, and what to drop.
//!
//! There is one address for all sessions, so the session is named on the connection. Messages come at least once and in
//! order: what has been passed is dropped here, so that whoever follows sees what the embedded server would show.

use std::time::Duration;

use pilothouse_domain::AgentSessionId;
use pilothouse_functions::api::stream::{
    StreamBody, StreamMessage, Subscribe, SubscribeAction, SubscriptionAnswer, parse_cursor,
};
use serde::Deserialize;
use tokio::time::Instant;

use super::ApiError;

/// API Gateway ends a connection that is idle for ten minutes. Subscribing again says something, and shows by its answer
/// that the whole way to here is open.
const RENEW_EVERY: Duration = Duration::from_mins(4);
/// A subscription that is not answered by then has been lost.
const ANSWER_WITHIN: Duration = Duration::from_secs(45);

/// One connection's subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    session: AgentSessionId,
    /// The last cursor that was seen.
    after: Option<String>,
    caught_up: bool,
    asked_at: Instant,
    answered: bool,
}

/// What API Gateway itself says when a function failed.
#[derive(Deserialize)]
struct Notice {
    message: String,
}

impl Subscription {
    /// One that was not yet asked for.
    pub(super) fn new(session: AgentSessionId, after: Option<&str>) -> Self {
        let after = after.map(str::to_owned);
        Self { session, after, caught_up: false, asked_at: Instant::now(), answered: true }
    }

    /// Whether it is time to ask again.
    pub(super) fn is_due(&self) -> bool {
        self.asked_at.elapsed() >= RENEW_EVERY
    }

    /// Whether an answer should have come.
    pub(super) fn is_overdue(&self) -> bool {
        !self.answered && self.asked_at.elapsed() >= ANSWER_WITHIN
    }

    /// What to say.
    pub(super) fn ask(&mut self) -> Result<String, ApiError> {
        self.asked_at = Instant::now();
        self.answered = false;
        let subscribe = Subscribe {
            action: SubscribeAction::Subscribe,
            session_id: self.session,
            after: self.after.clone(),
        };
        serde_json::to_string(&subscribe).map_err(ApiError::Encode)
    }

    /// Takes what was said: the message, unless it was seen before.
    pub(super) fn take(&mut self, text: &str) -> Result<Option<StreamMessage>, ApiError> {
        let message: StreamMessage = match serde_json::from_str(text) {
            Ok(message) => message,
            Err(source) => return Err(refusal(text, source)),
        };
        self.answered = true;
        if matches!(message.body, StreamBody::CaughtUp {}) {
            // Told at its first place only; it is told again after each time of asking.
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

/// What is said that is no message of the stream.
fn refusal(text: &str, source: serde_json::Error) -> ApiError {
    match serde_json::from_str(text) {
        // The connection has outlived its token: another one, with a new token, goes on.
        Ok(SubscriptionAnswer::Problem(problem)) if problem.status == 401 => ApiError::Stream(problem.detail),
        Ok(SubscriptionAnswer::Problem(problem)) => ApiError::Problem(Box::new(problem)),
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
    async fn a_quiet_connection_is_renewed_from_where_it_stands_before_it_is_idle_for_too_long() {
        let mut subscription = subscription(None);
        subscription.ask().unwrap();
        assert!(subscription.take(&message("j4")).unwrap().is_some());
        assert!(subscription.take(&caught_up("j4")).unwrap().is_some());
        advance(Duration::from_mins(3)).await;
        assert!(!subscription.is_due() && !subscription.is_overdue());
        advance(Duration::from_mins(2)).await;
        assert!(subscription.is_due() && !subscription.is_overdue());
        let said: Value = serde_json::from_str(&subscription.ask().unwrap()).unwrap();
        assert_eq!((said["action"].as_str(), said["after"].as_str()), (Some("subscribe"), Some("j4")));
        assert!(!subscription.is_due());
        assert!(subscription.take(&caught_up("j4")).unwrap().is_none(), "it was told before");
        advance(Duration::from_mins(1)).await;
        assert!(!subscription.is_overdue(), "though not shown, it was an answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_without_an_answer_is_lost() {
        let mut subscription = subscription(Some("j4"));
        subscription.ask().unwrap();
        advance(Duration::from_secs(44)).await;
        assert!(!subscription.is_overdue());
        advance(Duration::from_secs(2)).await;
        assert!(subscription.is_overdue());
        assert!(subscription.take(&message("j4")).unwrap().is_none());
        assert!(!subscription.is_overdue(), "what was seen before is an answer, too");
    }
}
