//! A webhook endpoint: its failures, pauses, and when it is disabled.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Delivery, EventFilter, WebhookUrl};
use crate::text::WebhookDescription;
use crate::{Timestamp, UserId, WebhookId};

/// A webhook endpoint of an owner. Its secret is derived from its id (decision 8).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub id: WebhookId,
    pub owner_id: UserId,
    /// URL that receives the deliveries.
    pub url: WebhookUrl,
    /// Events that are delivered; empty: all events.
    #[serde(default, skip_serializing_if = "EventFilter::is_all")]
    pub events: EventFilter,
    /// The owner's description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<WebhookDescription>,
    /// When the webhook was registered.
    pub created_at: Timestamp,
    /// Why deliveries stopped, until the owner enables the webhook again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<Disabled>,
    /// Failures since the last successful delivery; absent if the last one succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing: Option<Failing>,
}

/// Failures of an endpoint since its last successful delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failing {
    /// When the first failure occurred.
    pub since: Timestamp,
    /// Number of failures. Deliveries that were in progress when a pause began do not count.
    pub failures: u32,
    /// Until when deliveries are paused. Then one delivery is tried, and the others follow if it succeeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<Timestamp>,
}

/// Why an endpoint receives nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Disabled {
    /// When it was disabled.
    pub at: Timestamp,
    /// Explanation for a person.
    pub reason: String,
}

impl Webhook {
    pub const MAX_PER_OWNER: usize = 20;

    /// Number of consecutive failures that pause an endpoint.
    pub const FAILURES_BEFORE_PAUSE: u32 = 5;
    /// Pauses of an endpoint after the failure that pauses it and after each further failure, in units of
    /// [`crate::Deadlines::webhook_retry_unit`] (5 s): 30 s, 1 min, 2 min, 5 min, 10 min, then always 30 min.
    pub const PAUSES: [u32; 6] = [6, 12, 24, 60, 120, 360];

    pub fn accepts(&self, event: &str) -> bool {
        self.disabled.is_none() && self.events.accepts(event)
    }

    pub fn remaining_pause(&self, now: Timestamp) -> Option<Duration> {
        let until = self.failing?.paused_until?;
        (until > now).then(|| until.since(now))
    }

    /// Whether the endpoint was paused, and one delivery has to succeed before the others are sent.
    pub fn is_probing(&self) -> bool {
        self.failing.is_some_and(|failing| failing.paused_until.is_some())
    }

    /// Records a successful delivery. Returns whether the webhook changed.
    pub fn succeeded(&mut self) -> bool {
        self.failing.take().is_some()
    }

    /// Records a failed delivery. Returns whether the webhook changed; it does not while it is paused.
    pub fn failed(&mut self, step: Duration, now: Timestamp) -> bool {
        if self.remaining_pause(now).is_some() {
            return false;
        }
        let failing = self.failing.get_or_insert(Failing { since: now, failures: 0, paused_until: None });
        failing.failures = failing.failures.saturating_add(1);
        if let Some(earlier) = failing.failures.checked_sub(Self::FAILURES_BEFORE_PAUSE) {
            let at = usize::try_from(earlier).unwrap_or(usize::MAX).min(Self::PAUSES.len() - 1);
            failing.paused_until = Some(now + step * Self::PAUSES[at]);
        }
        true
    }

    /// Whether the endpoint has failed for as long as a single delivery is retried. It is disabled then.
    pub fn should_disable(&self, step: Duration, now: Timestamp) -> bool {
        let disable_after = step * Delivery::RETRY_SCHEDULE.iter().sum::<u32>();
        self.is_probing() && self.failing.is_some_and(|failing| failing.since + disable_after <= now)
    }

    pub fn disable(&mut self, reason: impl Into<String>, at: Timestamp) {
        self.disabled = Some(Disabled { at, reason: reason.into() });
    }

    /// Resumes deliveries and ends a pause. Returns whether the webhook changed.
    pub fn enable(&mut self) -> bool {
        self.failing.take().is_some() | self.disabled.take().is_some()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn failing_endpoint_is_paused_for_increasing_times() {
        let (step, start) = (Duration::from_secs(5), Timestamp::from_millis(1_000));
        let mut webhook = Webhook {
            id: WebhookId::new(uuid::Uuid::nil()),
            owner_id: UserId::parse("ada").unwrap(),
            url: WebhookUrl::parse("https://example.com/").unwrap(),
            events: EventFilter::default(),
            description: None,
            created_at: start,
            disabled: None,
            failing: None,
        };
        for _ in 1..Webhook::FAILURES_BEFORE_PAUSE {
            assert!(webhook.failed(step, start));
            assert_eq!((webhook.remaining_pause(start), webhook.is_probing()), (None, false));
        }
        let (mut now, mut pauses) = (start, Vec::new());
        while !webhook.should_disable(step, now) {
            assert!(webhook.failed(step, now));
            let left = webhook.remaining_pause(now).unwrap();
            assert!(!webhook.failed(step, now), "a delivery in progress changes nothing");
            assert_eq!(webhook.remaining_pause(now), Some(left));
            pauses.push(left.as_secs());
            now = now + left;
            assert!(webhook.remaining_pause(now).is_none() && webhook.is_probing());
        }
        assert_eq!(pauses[..7], [30, 60, 120, 300, 600, 1800, 1800]);
        assert!(now.since(start) < Duration::from_hours(9), "{:?}", now.since(start));
        assert!(webhook.succeeded() && !webhook.is_probing() && webhook.failing.is_none());
        assert!(!webhook.succeeded());
    }
}
