//! The delivery of one event to one endpoint: attempts and retries.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::text::cut;

/// Delivery of one event to one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// Sequence number of the announcement.
    pub sequence: u64,
    /// Id of the announcement, sent as `webhook-id`.
    pub id: String,
    /// Name of the event.
    #[serde(rename = "type")]
    pub event: String,
    /// Current state.
    #[serde(flatten)]
    pub state: DeliveryState,
    /// All attempts, in order.
    pub attempts: Vec<Attempt>,
}

/// State of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum DeliveryState {
    /// Another attempt follows.
    Pending {
        /// Earliest time of the next attempt.
        next_at: Timestamp,
    },
    /// The endpoint accepted the delivery.
    Delivered,
    /// The delivery was given up.
    Failed,
}

/// One delivery attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// When the attempt was made.
    pub at: Timestamp,
    /// HTTP status of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there was no response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// The delivery is complete.
    Delivered,
    /// The delivery is retried after this pause.
    RetryAfter(Duration),
    /// The delivery is given up and the endpoint disabled.
    GiveUp,
}

impl Delivery {
    /// Pauses between attempts in units of [`crate::Deadlines::webhook_retry_unit`] (5 s): 5 s, 30 s, 2 min, 10 min, 30 min, 2 h, 5 h.
    /// After the eighth attempt, about eight hours after the first, the endpoint is disabled.
    pub const RETRY_SCHEDULE: [u32; 7] = [1, 6, 24, 120, 360, 1440, 3600];
    /// Most characters of the reason why there was no response.
    pub const MAX_ERROR_LENGTH: usize = 300;
    /// Status with which an endpoint unsubscribes (Standard Webhooks).
    const GONE: u16 = 410;

    pub fn new(sequence: u64, id: String, event: String, now: Timestamp) -> Self {
        Self { sequence, id, event, state: DeliveryState::Pending { next_at: now }, attempts: Vec::new() }
    }

    pub const fn is_over(&self) -> bool {
        !matches!(self.state, DeliveryState::Pending { .. })
    }

    pub fn time_until_next_attempt(&self, now: Timestamp) -> Option<Duration> {
        match self.state {
            DeliveryState::Pending { next_at } if next_at > now => Some(next_at.since(now)),
            _ => None,
        }
    }

    /// Records the result of an attempt: the HTTP status, or the reason why there was no response.
    pub fn record(&mut self, outcome: Result<u16, String>, step: Duration, now: Timestamp) -> AttemptOutcome {
        let made = self.attempts.len();
        let (status, error) = match outcome {
            Ok(status) => (Some(status), None),
            Err(error) => (None, Some(cut(&error, Self::MAX_ERROR_LENGTH))),
        };
        self.attempts.push(Attempt { at: now, status, error });
        if status.is_some_and(|status| (200..300).contains(&status)) {
            self.state = DeliveryState::Delivered;
            return AttemptOutcome::Delivered;
        }
        match Self::RETRY_SCHEDULE.get(made) {
            Some(steps) if status != Some(Self::GONE) => {
                let pause = step * *steps;
                self.state = DeliveryState::Pending { next_at: now + pause };
                AttemptOutcome::RetryAfter(pause)
            }
            _ => {
                self.state = DeliveryState::Failed;
                AttemptOutcome::GiveUp
            }
        }
    }

    /// Gives up the delivery without an attempt, because its endpoint was deleted or disabled.
    pub const fn abandon(&mut self) {
        self.state = DeliveryState::Failed;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn delivery_is_retried_with_backoff_and_then_abandoned() {
        let (step, now) = (Duration::from_secs(5), Timestamp::from_millis(1_000));
        let mut delivery = Delivery::new(1, "e.0".to_owned(), "X".to_owned(), now);
        let mut pauses = Vec::new();
        for at in 0..7 {
            let outcome = if at % 2 == 0 { Ok(500) } else { Err("nobody answers".to_owned()) };
            match delivery.record(outcome, step, now) {
                AttemptOutcome::RetryAfter(pause) => pauses.push(pause.as_secs()),
                other => panic!("{other:?}"),
            }
            assert_eq!(
                delivery.time_until_next_attempt(now),
                Some(Duration::from_secs(*pauses.last().unwrap()))
            );
        }
        assert_eq!(pauses, [5, 30, 120, 600, 1800, 7200, 18000]);
        assert!(!delivery.is_over());
        assert_eq!(delivery.record(Ok(503), step, now), AttemptOutcome::GiveUp);
        assert!(delivery.is_over() && delivery.attempts.len() == 8);
    }

    #[test]
    fn success_ends_retries_and_gone_abandons_at_once() {
        let (step, now) = (Duration::from_secs(5), Timestamp::from_millis(1_000));
        let new = || Delivery::new(1, "e.0".to_owned(), "X".to_owned(), now);
        let (mut good, mut gone, mut moved) = (new(), new(), new());
        assert_eq!(good.record(Ok(204), step, now), AttemptOutcome::Delivered);
        assert_eq!(gone.record(Ok(410), step, now), AttemptOutcome::GiveUp);
        assert!(
            matches!(moved.record(Ok(302), step, now), AttemptOutcome::RetryAfter(_)),
            "redirects are not followed"
        );
        let json = serde_json::to_value(&good).unwrap();
        assert_eq!(json["state"], "delivered");
        assert_eq!(serde_json::from_value::<Delivery>(json).unwrap(), good);
    }
}
