//! The rules of an attempt at a delivery: whether one is due, and its effect on the delivery and the endpoint.

use std::time::Duration;

use uuid::Uuid;

use super::{AttemptOutcome, Delivery, Webhook};
use crate::announcement::{FeedEntry, NotificationKind};
use crate::{EventId, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryStep {
    /// The delivery is over.
    Done,
    /// Give up the delivery, because its endpoint is disabled.
    Abandon,
    /// Send the message for the next attempt, which waits in its own group.
    Requeue {
        attempts: usize,
    },
    /// Wait for this time: until the next attempt, or until the pause of the endpoint ends.
    Wait(Duration),
    Attempt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEffect {
    pub outcome: AttemptOutcome,
    /// Whether the endpoint changed.
    pub webhook_changed: bool,
    /// Whether the endpoint must be disabled by [`Webhook::give_up`].
    pub must_disable: bool,
}

impl Webhook {
    /// Decides on the next step for a delivery to this endpoint. `is_alone` is whether its message delays no other delivery.
    pub fn next_step(&self, delivery: &Delivery, is_alone: bool, now: Timestamp) -> DeliveryStep {
        if delivery.is_over() {
            return DeliveryStep::Done;
        }
        if self.disabled.is_some() {
            return DeliveryStep::Abandon;
        }
        let attempts = delivery.attempts.len();
        if attempts > 0 && !is_alone {
            return DeliveryStep::Requeue { attempts };
        }
        let wait = self.remaining_pause(now).max(delivery.time_until_next_attempt(now));
        wait.map_or(DeliveryStep::Attempt, DeliveryStep::Wait)
    }

    /// Records the result of an attempt: the HTTP status, or the reason why there was no response.
    pub fn record_attempt(
        &mut self,
        delivery: &mut Delivery,
        result: Result<u16, String>,
        step: Duration,
        now: Timestamp,
    ) -> AttemptEffect {
        let outcome = delivery.record(result, step, now);
        let webhook_changed = match outcome {
            AttemptOutcome::Delivered => self.succeeded(),
            AttemptOutcome::RetryAfter(_) | AttemptOutcome::GiveUp => self.failed(step, now),
        };
        let has_failed_too_long = match outcome {
            AttemptOutcome::Delivered => false,
            AttemptOutcome::RetryAfter(_) => self.should_disable(step, now),
            AttemptOutcome::GiveUp => true,
        };
        AttemptEffect {
            outcome,
            webhook_changed,
            must_disable: has_failed_too_long && self.disabled.is_none(),
        }
    }

    /// Disables the endpoint because of a delivery, at the time of its last attempt. Returns the notification for its owner.
    pub fn give_up(&mut self, delivery: &Delivery, now: Timestamp) -> FeedEntry {
        let tried = delivery.attempts.len();
        let now = delivery.attempts.last().map_or(now, |attempt| attempt.at);
        self.disable(format!("{} could not be delivered in {tried} attempts", delivery.event), now);
        let text = format!(
            "The webhook {} was disabled after {tried} failed attempts. Enable it when its endpoint works again.",
            self.url.as_str()
        );
        FeedEntry {
            id: format!("{}.{}", self.id, delivery.sequence),
            at: now,
            announced: None,
            notice: Some((NotificationKind::WebhookDisabled, text)),
            session_id: None,
        }
    }

    /// Whether the endpoint is disabled because of an attempt at this delivery.
    pub fn was_disabled_by(&self, delivery: &Delivery) -> bool {
        let disabled = self.disabled.as_ref();
        disabled.is_some_and(|disabled| delivery.attempts.iter().any(|attempt| attempt.at == disabled.at))
    }

    /// Identifies the notification that the endpoint was disabled, in place of a journal entry. `None` while it is not disabled.
    pub fn notice_id(&self) -> Option<EventId> {
        let at = self.disabled.as_ref()?.at.as_millis();
        Some(EventId::new(Uuid::new_v5(&self.id.uuid(), format!("disabled\n{at}").as_bytes())))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::webhook::{EventFilter, WebhookUrl};
    use crate::{UserId, WebhookId};

    const STEP: Duration = Duration::from_secs(5);
    fn start() -> Timestamp {
        Timestamp::from_millis(1_000)
    }

    fn given() -> (Webhook, Delivery) {
        let webhook = Webhook {
            id: WebhookId::new(uuid::Uuid::nil()),
            owner_id: UserId::parse("ada").unwrap(),
            url: WebhookUrl::parse("https://example.com/").unwrap(),
            events: EventFilter::default(),
            description: None,
            created_at: start(),
            disabled: None,
            failing: None,
        };
        (webhook, Delivery::new(7, "e.0".to_owned(), "SkillConsolidatedEvent".to_owned(), start()))
    }

    #[test]
    fn new_delivery_is_attempted_at_once_and_retried_alone() {
        let (mut webhook, mut delivery) = given();
        assert_eq!(webhook.next_step(&delivery, false, start()), DeliveryStep::Attempt);

        let effect = webhook.record_attempt(&mut delivery, Ok(500), STEP, start());

        let outcome = AttemptOutcome::RetryAfter(STEP);
        assert_eq!(effect, AttemptEffect { outcome, webhook_changed: true, must_disable: false });
        assert_eq!(webhook.next_step(&delivery, false, start()), DeliveryStep::Requeue { attempts: 1 });
        assert_eq!(webhook.next_step(&delivery, true, start()), DeliveryStep::Wait(STEP));
        assert_eq!(webhook.next_step(&delivery, true, start() + STEP), DeliveryStep::Attempt);
    }

    #[test]
    fn paused_endpoint_delays_new_deliveries() {
        let (mut webhook, delivery) = given();
        for _ in 0..Webhook::FAILURES_BEFORE_PAUSE {
            webhook.record_attempt(&mut delivery.clone(), Err("no response".to_owned()), STEP, start());
        }
        let pause = STEP * Webhook::PAUSES[0];
        assert_eq!(webhook.next_step(&delivery, false, start()), DeliveryStep::Wait(pause));
        assert_eq!(webhook.next_step(&delivery, false, start() + pause), DeliveryStep::Attempt);
    }

    #[test]
    fn success_ends_the_delivery_and_the_failures() {
        let (mut webhook, mut delivery) = given();
        webhook.record_attempt(&mut delivery.clone(), Ok(500), STEP, start());

        let effect = webhook.record_attempt(&mut delivery, Ok(204), STEP, start());

        let outcome = AttemptOutcome::Delivered;
        assert_eq!(effect, AttemptEffect { outcome, webhook_changed: true, must_disable: false });
        assert_eq!(webhook.next_step(&delivery, true, start()), DeliveryStep::Done);
        assert_eq!(webhook.failing, None);
    }

    #[test]
    fn endpoint_that_is_gone_is_disabled_once() {
        let (mut webhook, mut delivery) = given();
        let mut other = delivery.clone();

        let effect = webhook.record_attempt(&mut delivery, Ok(410), STEP, start());
        assert!(effect.must_disable);
        let notice = webhook.give_up(&delivery, start() + STEP);

        assert_eq!(notice.notice.unwrap().0, NotificationKind::WebhookDisabled);
        assert!(webhook.disabled.as_ref().unwrap().reason.contains("SkillConsolidatedEvent"));
        assert_eq!(webhook.next_step(&other, false, start()), DeliveryStep::Abandon);
        let late = webhook.record_attempt(&mut other, Ok(410), STEP, start());
        assert!(!late.must_disable, "it is disabled already");
    }

    #[test]
    fn delivery_that_disabled_an_endpoint_is_known_until_enabled() {
        let (mut webhook, mut delivery) = given();
        let mut other = delivery.clone();
        webhook.record_attempt(&mut delivery, Ok(410), STEP, start());
        webhook.give_up(&delivery, start() + STEP);
        webhook.record_attempt(&mut other, Ok(410), STEP, start() + STEP);

        assert!(webhook.was_disabled_by(&delivery) && !webhook.was_disabled_by(&other));
        let first = webhook.notice_id();
        assert!(first.is_some());

        webhook.enable();
        assert!(!webhook.was_disabled_by(&delivery) && webhook.notice_id().is_none());
        let (_, mut next) = given();
        webhook.record_attempt(&mut next, Ok(410), STEP, start() + STEP * 2);
        webhook.give_up(&next, start() + STEP * 2);
        assert_ne!(webhook.notice_id(), first);
    }

    #[test]
    fn endpoint_is_disabled_when_it_failed_for_a_whole_schedule() {
        let (mut webhook, delivery) = given();
        let whole = STEP * Delivery::RETRY_SCHEDULE.iter().sum::<u32>();
        for _ in 0..Webhook::FAILURES_BEFORE_PAUSE {
            webhook.record_attempt(&mut delivery.clone(), Ok(500), STEP, start());
        }
        let early = start() + (whole.checked_sub(Duration::from_millis(1)).unwrap());
        let attempt = |at| webhook.clone().record_attempt(&mut delivery.clone(), Ok(500), STEP, at);
        assert!(!attempt(early).must_disable);
        assert!(attempt(start() + whole).must_disable);
    }

    #[test]
    fn reason_of_a_failure_is_cut() {
        let (mut webhook, mut delivery) = given();
        webhook.record_attempt(&mut delivery, Err("x".repeat(1_000)), STEP, start());
        let kept = delivery.attempts[0].error.as_ref().unwrap();
        assert!(kept.chars().count() <= Delivery::MAX_ERROR_LENGTH, "{}", kept.len());
    }
}
