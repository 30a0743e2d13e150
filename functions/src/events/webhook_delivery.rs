//! Makes one attempt at each delivery of the webhooks queue: to a webhook or a browser of an owner, or to the event bus and the
//! topic.
//!
//! The delivery record, not the message, holds the state of a delivery: an early message waits, and a repeated message has no
//! effect. A crash between an attempt and its record causes another attempt with the same `webhook-id`.
//!
//! A failing endpoint must not delay others:
//!
//! - First attempts share a group per endpoint: the queue hands out one batch of an endpoint at a time. The deliveries of a batch
//!   are sent concurrently.
//! - A failed delivery waits for its next attempt in a separate group, so that it delays no other delivery.
//! - The same applies to browsers. They have no delivery record, so the message carries the state.
//! - An endpoint that fails several times in a row is paused ([`Webhook::failed`]). After the pause one delivery is tried, and the
//!   others follow if it succeeds.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use pilothouse_app::App;
use pilothouse_app::batch::{BatchOutcome, MessageOutcome, Retry};
use pilothouse_app::function::requirements::{WEBHOOK_DELIVERY, WEBHOOKS};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_app::http::Problem;
use pilothouse_app::integrations::{DeliveryError, DeliveryRequest};
use pilothouse_app::queues;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_broker::{OutgoingMessage, QueueError, Received};
use pilothouse_domain::announcement::{Announcement, NotificationKind};
use pilothouse_domain::webhook::{AttemptEffect, AttemptOutcome, Delivery, DeliveryStep, Webhook};
use pilothouse_domain::{DomainContext, Timestamp, UserId, WebhookId};
use pilothouse_store::{Commit, FeedHead, Loaded};
use serde_json::json;

use crate::events::delivery_message::{Pointer, Receiver};
use crate::events::event_feed;
use crate::events::web_push_delivery::{self, PushOutcome};

pub const FUNCTION: EventFunction = EventFunction::new(
    "deliver",
    &[Subscription::queue(WEBHOOKS, |ctx, batch| {
        Box::pin(async move { Ok(process(&ctx.app, batch).await) })
    })],
    WEBHOOK_DELIVERY,
)
.summary("Deliver to webhooks, browsers, the event bus and the topic");

/// The message for the next attempt at a delivery after `attempts` attempts.
fn retry(pointer: &Pointer, webhook: WebhookId, attempts: usize) -> Result<OutgoingMessage, Problem> {
    let group = format!("{webhook}:{}", pointer.sequence);
    let id = format!("{group}:{attempts}");
    Ok(OutgoingMessage::new(group, id, pointer.body()?))
}

/// Processes a batch of the webhooks queue and settles the part of each endpoint when it is done.
pub async fn process_and_settle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let queue = queues::webhooks();
    let parts = parts(batch).into_iter().map(async |part| {
        let outcome = deliver(app, part).await;
        pilothouse_app::batch::settle(app.broker.as_ref(), &queue, outcome).await
    });
    join_all(parts).await.into_iter().collect()
}

/// The caller settles the batch.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    let settled = join_all(parts(batch).into_iter().map(|part| deliver(app, part))).await;
    let mut all = BatchOutcome::default();
    for part in settled {
        all.merge(part);
    }
    all
}

/// An independent part of a batch.
enum Part {
    Endpoint(UserId, WebhookId, Vec<(Received, Pointer)>),
    /// The messages of another group: for a browser or the event bus, or one that cannot be parsed.
    Group(Vec<Received>),
}

fn parts(batch: Vec<Received>) -> Vec<Part> {
    let mut endpoints: BTreeMap<WebhookId, (UserId, Vec<(Received, Pointer)>)> = BTreeMap::new();
    let mut groups: BTreeMap<String, Vec<Received>> = BTreeMap::new();
    for message in batch {
        match serde_json::from_str::<Pointer>(&message.body) {
            Ok(pointer @ Pointer { receiver: Receiver::Webhook { webhook_id }, .. }) => {
                let (_, messages) =
                    endpoints.entry(webhook_id).or_insert_with(|| (pointer.owner_id.clone(), Vec::new()));
                messages.push((message, pointer));
            }
            _ => groups.entry(message.group.clone()).or_default().push(message),
        }
    }
    let endpoints =
        endpoints.into_iter().map(|(webhook, (owner, messages))| Part::Endpoint(owner, webhook, messages));
    endpoints.chain(groups.into_values().map(Part::Group)).collect()
}

async fn deliver(app: &App, part: Part) -> BatchOutcome {
    match part {
        Part::Endpoint(owner, webhook, messages) => deliver_to(app, &owner, webhook, messages).await,
        Part::Group(messages) => {
            let work = |app, message| async move { deliver_message(&app, &message).await };
            pilothouse_app::batch::process_batch(app, &queues::webhooks(), messages, work).await
        }
    }
}

async fn deliver_message(app: &App, message: &Received) -> Outcome {
    let pointer: Pointer = serde_json::from_str(&message.body).map_err(Problem::internal)?;
    let Pointer { owner_id, receiver, sequence, retry } = pointer;
    match receiver {
        Receiver::Browser { web_push_subscription_id: id } => {
            match web_push_delivery::deliver(app, &owner_id, id, sequence, retry).await? {
                PushOutcome::Over => Ok(MessageOutcome::Done),
                PushOutcome::Wait(wait) => Ok(MessageOutcome::Later(wait)),
                PushOutcome::Retry(retry) => {
                    let attempts = retry.attempts;
                    let pointer = Pointer { owner_id, receiver, sequence, retry: Some(retry) };
                    // In a group of its own, so that it delays no other notification of the browser.
                    let group = format!("browser:{id}:{sequence}");
                    let deduplication_id = format!("{group}:{attempts}");
                    send(app, OutgoingMessage::new(group, deduplication_id, pointer.body()?)).await?;
                    Ok(MessageOutcome::Done)
                }
            }
        }
        Receiver::Bus {} => publish(app, &owner_id, sequence).await.map(|()| MessageOutcome::Done),
        Receiver::Webhook { webhook_id } => Err(Problem::internal(format!(
            "a message for webhook {webhook_id} is in the group of another receiver"
        ))),
    }
}

type Outcome = Result<MessageOutcome, Problem>;

/// Delivers messages to one endpoint concurrently. If the endpoint was paused, the first message is sent alone.
async fn deliver_to(
    app: &App,
    owner: &UserId,
    webhook: WebhookId,
    messages: Vec<(Received, Pointer)>,
) -> BatchOutcome {
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(messages.len());
    let is_probing =
        matches!(app.store.webhook(owner, webhook).await, Ok(Some(known)) if known.value.is_probing());
    let (first, rest) = messages.split_at(usize::from(is_probing));
    for group in [first, rest] {
        let attempts = group.iter().map(|(message, pointer)| attempt(app, owner, webhook, message, pointer));
        for made in join_all(attempts).await {
            // Recorded one by one, because they change the same webhook record.
            outcomes.push(match made {
                Ok(AttemptDecision::Record(attempt_record)) => {
                    record(app, owner, webhook, *attempt_record).await
                }
                Ok(AttemptDecision::Outcome(worked)) => Ok(worked),
                Err(problem) => Err(problem),
            });
        }
    }
    let mut batch_outcome = BatchOutcome::default();
    for ((message, _), outcome) in messages.into_iter().zip(outcomes) {
        let retry = match outcome {
            Ok(MessageOutcome::Done) => {
                batch_outcome.done.push(message.receipt);
                continue;
            }
            Ok(MessageOutcome::Later(pause)) => Some(Retry { pause, counts: false }),
            Err(problem) => {
                pilothouse_app::batch::retry_or_dead_letter(app, &queues::webhooks(), &message, &problem)
                    .await
            }
        };
        if let Some(retry) = retry {
            batch_outcome.add_retry(vec![message.receipt], retry);
        }
    }
    batch_outcome
}

enum AttemptDecision {
    /// Record an attempt, or a delivery that is abandoned without one.
    Record(Box<AttemptRecord>),
    /// Settle the message; nothing was sent.
    Outcome(MessageOutcome),
}

struct AttemptRecord {
    pointer: Pointer,
    /// Whether the message is alone in its group.
    alone: bool,
    delivery: Loaded<Delivery>,
    /// None: no attempt was made, because the endpoint is disabled.
    outcome: Option<Result<u16, String>>,
}

async fn attempt(
    app: &App,
    owner: &UserId,
    webhook_id: WebhookId,
    message: &Received,
    pointer: &Pointer,
) -> Result<AttemptDecision, Problem> {
    const DONE: Result<AttemptDecision, Problem> = Ok(AttemptDecision::Outcome(MessageOutcome::Done));
    let sequence = pointer.sequence;
    let Some(webhook) = app.store.webhook(owner, webhook_id).await? else { return DONE };
    let Some(announcement) = app.store.announcement(owner, sequence).await? else {
        return DONE; // It has expired.
    };
    let known = app.store.delivery(webhook_id, sequence).await?;
    let delivery = known.unwrap_or_else(|| {
        let Announcement { sequence, id, event, .. } = announcement.clone();
        Loaded::new(Delivery::new(sequence, id, event, app.now()))
    });
    let alone = message.group != webhook_id.to_string();
    let attempt_record = |delivery, outcome| {
        Ok(AttemptDecision::Record(Box::new(AttemptRecord {
            pointer: pointer.clone(),
            alone,
            delivery,
            outcome,
        })))
    };
    match webhook.value.next_step(&delivery.value, alone, app.now()) {
        DeliveryStep::Done => {
            // The process crashed before it sent the messages for the notification that the endpoint was disabled.
            notify_disabled(app, &webhook.value, &delivery.value).await?;
            return DONE;
        }
        DeliveryStep::Abandon => return attempt_record(delivery, None),
        DeliveryStep::Requeue { attempts } => {
            // The process crashed before it sent the message for the next attempt.
            return send_retry(app, pointer, webhook_id, attempts)
                .await
                .map(|()| AttemptDecision::Outcome(MessageOutcome::Done));
        }
        DeliveryStep::Wait(wait) => return Ok(AttemptDecision::Outcome(MessageOutcome::Later(wait))),
        DeliveryStep::Attempt => {}
    }
    match post(app, &webhook.value, &announcement).await? {
        Err(DeliveryError::Busy) => {
            Ok(AttemptDecision::Outcome(MessageOutcome::Later(app.deadlines.webhook_retry_unit)))
        }
        Err(DeliveryError::Failed(why)) => attempt_record(delivery, Some(Err(why))),
        Ok(status) => attempt_record(delivery, Some(Ok(status))),
    }
}

async fn send_retry(
    app: &App,
    pointer: &Pointer,
    webhook: WebhookId,
    attempts: usize,
) -> Result<(), Problem> {
    send(app, retry(pointer, webhook, attempts)?).await
}

async fn send(app: &App, message: OutgoingMessage) -> Result<(), Problem> {
    let outcome = app.broker.send(&queues::webhooks(), vec![message]).await.map_err(Problem::internal)?;
    match outcome.failed.into_iter().next() {
        Some((_, error)) => Err(Problem::internal(error)),
        None => Ok(()),
    }
}

/// Publishes to the event bus and the topic, at least once. They are never disabled; messages that keep failing become dead
/// letters.
async fn publish(app: &App, owner: &UserId, sequence: u64) -> Result<(), Problem> {
    let Some(bus) = &app.integrations.event_bus else { return Ok(()) };
    if let Some(announcement) = app.store.announcement(owner, sequence).await? {
        bus.publish(&[announcement]).await.map_err(Problem::internal)?;
    }
    if let Some(notification) = app.store.notification(owner, sequence).await? {
        bus.notify(owner, &[notification.value]).await.map_err(Problem::internal)?;
    }
    Ok(())
}

async fn post(
    app: &App,
    webhook: &Webhook,
    announcement: &Announcement,
) -> Result<Result<u16, DeliveryError>, Problem> {
    if let Err(error) = webhook.url.check(app.integrations.egress_policy) {
        return Ok(Err(DeliveryError::Failed(format!("the address {error}"))));
    }
    let Some(sender) = &app.integrations.delivery_sender else {
        return Ok(Err(DeliveryError::Failed("this server does not deliver webhooks".to_owned())));
    };
    let body = serde_json::to_string(&json!({
        "type": announcement.event,
        "timestamp": announcement.at,
        "data": announcement.detail,
    }))
    .map_err(Problem::internal)?;
    let now = app.now();
    let signature = app.secret.webhook_secret(webhook.id).sign(&announcement.id, now, &body);
    let request = DeliveryRequest {
        owner: webhook.owner_id.clone(),
        url: webhook.url.clone(),
        egress_policy: app.integrations.egress_policy,
        // Standard Webhooks.
        headers: vec![
            ("content-type", "application/json".to_owned()),
            ("user-agent", "pilothouse-webhooks".to_owned()),
            ("webhook-id", announcement.id.clone()),
            ("webhook-timestamp", now.as_secs().to_string()),
            ("webhook-signature", signature),
        ],
        body: body.into(),
    };
    Ok(sender.deliver(&request).await)
}

/// A delivery and its endpoint after an attempt, and the effect of the attempt. None: the delivery is abandoned.
struct Recorded {
    webhook: Loaded<Webhook>,
    delivery: Loaded<Delivery>,
    effect: Option<AttemptEffect>,
}

impl Recorded {
    fn new(
        mut webhook: Loaded<Webhook>,
        mut delivery: Loaded<Delivery>,
        result: Option<&Result<u16, String>>,
        step: Duration,
        now: Timestamp,
    ) -> Self {
        let effect = if let Some(result) = result {
            Some(webhook.value.record_attempt(&mut delivery.value, result.clone(), step, now))
        } else {
            delivery.value.abandon();
            None
        };
        Self { webhook, delivery, effect }
    }

    fn must_disable(&self) -> bool {
        self.effect.is_some_and(|effect| effect.must_disable)
    }
}

/// Records the outcome of a delivery and the state of its endpoint in one transaction. After a write conflict the decision is made
/// again on the new state.
async fn record(app: &App, owner: &UserId, id: WebhookId, attempt_record: AttemptRecord) -> Outcome {
    let AttemptRecord { pointer, alone, delivery, outcome } = attempt_record;
    let step = app.deadlines.webhook_retry_unit;
    let (first, outcome, sequence) = (&delivery, outcome.as_ref(), pointer.sequence);
    let mut is_repeated = false;
    let load = || {
        let is_repeated = std::mem::replace(&mut is_repeated, true);
        async move {
            let known = if is_repeated { app.store.delivery(id, sequence).await? } else { None };
            let delivery = known.unwrap_or_else(|| first.clone());
            if delivery.value.is_over() {
                return Ok(None);
            }
            let Some(webhook) = app.store.webhook(owner, id).await? else { return Ok(None) };
            let recorded = Recorded::new(webhook, delivery, outcome, step, app.now());
            let head = if recorded.must_disable() { Some(app.store.feed(owner).await?) } else { None };
            Ok(Some((recorded, head)))
        }
    };
    let decide = |state: Option<(Recorded, Option<Loaded<FeedHead>>)>, ctx: &mut DomainContext<'_>| {
        let Some((mut recorded, head)) = state else { return Ok::<_, Problem>(Decision::Unchanged(None)) };
        let mut commit = Commit::new();
        if let Some(head) = &head {
            let webhook = &mut recorded.webhook.value;
            let notice = webhook.give_up(&recorded.delivery.value, ctx.now);
            let published_range = commit.publish(owner, head, &[notice])?;
            if let Some(notice_id) = webhook.notice_id() {
                commit.published_range(owner, notice_id, published_range, ctx.now)?;
            }
        }
        commit.delivery(id, &recorded.delivery, ctx.now)?;
        if recorded.effect.is_some_and(|effect| effect.webhook_changed || effect.must_disable) {
            commit.webhook(&recorded.webhook)?;
        }
        Ok(Decision::Commit(commit, Some(recorded)))
    };
    let recorded = app.unit_of_work().run(RetryPolicy::EVENT, load, decide).await?;
    let Some(Recorded { webhook, delivery, effect }) = recorded else {
        // An earlier commit recorded the attempt, and its outcome was lost. The next receive continues after it.
        return Ok(MessageOutcome::Later(Duration::ZERO));
    };
    notify_disabled(app, &webhook.value, &delivery.value).await?;
    match effect.map(|effect| effect.outcome) {
        Some(AttemptOutcome::RetryAfter(pause)) if alone => Ok(MessageOutcome::Later(pause)),
        Some(AttemptOutcome::RetryAfter(_)) => {
            let attempts = delivery.value.attempts.len();
            send_retry(app, &pointer, id, attempts).await.map(|()| MessageOutcome::Done)
        }
        _ => Ok(MessageOutcome::Done),
    }
}

/// Sends the messages for the notification that the endpoint was disabled, if an attempt at this delivery disabled it. A repetition
/// is harmless.
async fn notify_disabled(app: &App, webhook: &Webhook, delivery: &Delivery) -> Result<(), Problem> {
    let Some(notice) = webhook.notice_id().filter(|_| webhook.was_disabled_by(delivery)) else {
        return Ok(());
    };
    let owner = &webhook.owner_id;
    let Some(published_range) = app.store.published_range(owner, notice).await? else { return Ok(()) };
    for sequence in published_range.numbers() {
        event_feed::enqueue_notice(app, owner, sequence, NotificationKind::WebhookDisabled).await?;
    }
    Ok(())
}
