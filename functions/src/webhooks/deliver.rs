//! Takes deliveries from the queue of webhooks, each a group of its own, and makes one attempt at each: to an endpoint of an
//! owner, or to the bus and the topic.
//!
//! What became of it stands in the record of the delivery, not in the message: a message that comes too early waits on, and
//! one that comes again does nothing. A crash between an attempt and its record makes another attempt, under the same
//! `webhook-id`.

use pilothouse_broker::{Outgoing, QueueError, Received};
use pilothouse_domain::announcement::{Announcement, NotificationKind, Telling};
use pilothouse_domain::webhook::{Delivery, Verdict, Webhook};
use pilothouse_domain::{UserId, WebhookId};
use pilothouse_store::{Commit, CommitError, Loaded};
use pilothouse_wire::keys::sha256_hex;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::App;
use crate::edge::Problem;
use crate::outside::Parcel;
use crate::queues::{self, Settlement, Worked};

/// Names a delivery.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pointer {
    owner_id: UserId,
    /// None: the bus and the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    webhook_id: Option<WebhookId>,
    sequence: u64,
}

/// The message that has an endpoint told of an announcement, or the bus and the topic of all that has a number.
pub(crate) fn message(
    owner: &UserId,
    webhook: Option<WebhookId>,
    sequence: u64,
) -> Result<Outgoing, Problem> {
    let pointer = Pointer { owner_id: owner.clone(), webhook_id: webhook, sequence };
    let body = serde_json::to_string(&pointer).map_err(Problem::internal)?;
    let id = match webhook {
        Some(webhook) => format!("{webhook}:{sequence}"),
        None => format!("bus:{}", sha256_hex(format!("{owner}\0{sequence}").as_bytes())),
    };
    Ok(Outgoing::new(id.clone(), id, body))
}

/// Takes one batch of the queue of webhooks and settles it.
pub async fn handle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let settlement = process(app, batch).await;
    queues::settle(app.broker.as_ref(), &queues::webhooks(), settlement).await
}

/// Takes one batch and leaves it to the caller to settle it.
pub async fn process(app: &App, batch: Vec<Received>) -> Settlement {
    queues::work_off(app, &queues::webhooks(), batch, |app, message| async move {
        deliver(&app, &message.body).await
    })
    .await
}

async fn deliver(app: &App, body: &str) -> Result<Worked, Problem> {
    let Pointer { owner_id, webhook_id, sequence } = serde_json::from_str(body).map_err(Problem::internal)?;
    let Some(webhook_id) = webhook_id else {
        return publish(app, &owner_id, sequence).await.map(|()| Worked::Done);
    };
    let Some(webhook) = app.store.webhook(&owner_id, webhook_id).await? else { return Ok(Worked::Done) };
    let Some(announcement) = app.store.announcement(&owner_id, sequence).await? else {
        return Ok(Worked::Done); // It has expired.
    };
    let known = app.store.delivery(webhook_id, sequence).await?;
    let mut delivery = known.unwrap_or_else(|| {
        let Announcement { sequence, id, event, .. } = announcement.clone();
        Loaded::new(Delivery::new(sequence, id, event, app.now()))
    });
    if delivery.value.is_over() {
        return Ok(Worked::Done);
    }
    if webhook.value.disabled.is_some() {
        delivery.value.drop();
        return record(app, &webhook, &delivery, false).await.map(|()| Worked::Done);
    }
    if let Some(wait) = delivery.value.waits(app.now()) {
        return Ok(Worked::Later(wait));
    }
    let outcome = attempt(app, &webhook.value, &announcement).await?;
    match delivery.value.record(outcome, app.deadlines.redelivered, app.now()) {
        Verdict::Delivered => record(app, &webhook, &delivery, false).await.map(|()| Worked::Done),
        Verdict::Again(pause) => record(app, &webhook, &delivery, false).await.map(|()| Worked::Later(pause)),
        Verdict::GiveUp => record(app, &webhook, &delivery, true).await.map(|()| Worked::Done),
    }
}

/// Tells bus and topic, at least once. They are not given up as endpoints are: what they keep refusing is a dead letter.
async fn publish(app: &App, owner: &UserId, sequence: u64) -> Result<(), Problem> {
    let Some(bus) = &app.outside.bus else { return Ok(()) };
    if let Some(announcement) = app.store.announcement(owner, sequence).await? {
        bus.publish(&[announcement]).await.map_err(Problem::internal)?;
    }
    if let Some(notification) = app.store.notification(owner, sequence).await? {
        bus.notify(owner, &[notification.value]).await.map_err(Problem::internal)?;
    }
    Ok(())
}

/// One POST.
async fn attempt(
    app: &App,
    webhook: &Webhook,
    announcement: &Announcement,
) -> Result<Result<u16, String>, Problem> {
    if let Err(error) = webhook.url.check(app.outside.reach) {
        return Ok(Err(format!("the address {error}")));
    }
    let Some(courier) = &app.outside.courier else {
        return Ok(Err("this server delivers nothing".to_owned()));
    };
    let body = serde_json::to_string(&json!({
        "type": announcement.event,
        "timestamp": announcement.at,
        "data": announcement.detail,
    }))
    .map_err(Problem::internal)?;
    let now = app.now();
    let parcel = Parcel {
        url: webhook.url.clone(),
        reach: app.outside.reach,
        id: announcement.id.clone(),
        timestamp: now.as_secs(),
        signature: app.secret.webhook_secret(webhook.id).sign(&announcement.id, now, &body),
        body,
    };
    Ok(courier.deliver(&parcel).await.map_err(|why| pilothouse_domain::text::cut(&why, 300)))
}

/// Keeps what became of a delivery; with `give_up`, its endpoint is told nothing more, and its owner is told that. Who loses
/// a race looks again.
async fn record(
    app: &App,
    webhook: &Loaded<Webhook>,
    delivery: &Loaded<Delivery>,
    give_up: bool,
) -> Result<(), Problem> {
    let now = app.now();
    let mut commit = Commit::new();
    commit.delivery(webhook.value.id, delivery, now)?;
    if give_up {
        let mut webhook = webhook.clone();
        let tried = delivery.value.attempts.len();
        webhook
            .value
            .disable(format!("{} could not be delivered in {tried} attempts", delivery.value.event), now);
        commit.webhook(&webhook)?;
        let head = app.store.feed(&webhook.value.owner_id).await?;
        let telling = Telling {
            id: format!("{}.{}", webhook.value.id, delivery.value.sequence),
            at: now,
            announced: None,
            notice: Some((
                NotificationKind::WebhookDisabled,
                format!(
                    "The webhook {} is told nothing more: {tried} attempts failed. Enable it when it works again.",
                    webhook.value.url.as_str()
                ),
            )),
            session_id: None,
        };
        commit.tell(&webhook.value.owner_id, &head, &[telling])?;
    }
    match app.store.commit(commit).await {
        Ok(()) => Ok(()),
        Err(CommitError::Conflict) => Err(Problem::VersionConflict),
        Err(other) => Err(other.into()),
    }
}
