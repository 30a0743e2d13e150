//! Delivers a notification to a browser, by the push service of its vendor (decision 98).
//!
//! A delivery has no record. A repeated one replaces the notification that the browser shows, and one that fails for twenty minutes is
//! given up, because the list of notifications has it anyway. Its message carries what the next attempt has to know.

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::http::Problem;
use pilothouse_app::integrations::DeliveryError;
use pilothouse_app::web_push;
use pilothouse_domain::announcement::Notification;
use pilothouse_domain::web_push::WebPushSubscription;
use pilothouse_domain::{Timestamp, UserId, WebPushSubscriptionId};
use serde::{Deserialize, Serialize};

/// Attempts before a delivery is given up.
const MAX_ATTEMPTS: u32 = 9;
/// The most later notifications among which the next one of the same session is searched.
const MAX_LATER: usize = 100;

/// A failed delivery that is tried again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PushRetry {
    /// Attempts so far.
    pub(super) attempts: u32,
    pub(super) next_at: Timestamp,
}

pub(super) enum PushOutcome {
    /// It was delivered or given up, or nobody waits for it any more.
    Over,
    /// No attempt was made. The next one may be made after this time.
    Wait(Duration),
    /// The attempt failed.
    Retry(PushRetry),
}

/// Makes an attempt, if one is due. `earlier` are the failed attempts.
///
/// # Errors
/// Failures of the store, and of the encryption.
pub(super) async fn deliver(
    app: &App,
    owner: &UserId,
    id: WebPushSubscriptionId,
    sequence: u64,
    earlier: Option<PushRetry>,
) -> Result<PushOutcome, Problem> {
    let now = app.now();
    if let Some(PushRetry { next_at, .. }) = earlier.filter(|earlier| earlier.next_at > now) {
        return Ok(PushOutcome::Wait(next_at.since(now)));
    }
    let subscriptions = app.store.web_push_subscriptions(owner).await?.value;
    let Some(subscription) = subscriptions.get(id) else { return Ok(PushOutcome::Over) };
    let Some(notification) = app.store.notification(owner, sequence).await? else {
        return Ok(PushOutcome::Over);
    };
    // The owner has seen it elsewhere.
    if notification.value.read_at.is_some() {
        return Ok(PushOutcome::Over);
    }
    if earlier.is_some() && is_outdated(app, owner, subscription, &notification.value).await? {
        return Ok(PushOutcome::Over);
    }
    let (cause, is_final) = match post(app, owner, subscription, &notification.value).await? {
        Ok(200..=299) => return Ok(PushOutcome::Over),
        // The browser has cancelled its subscription, or it has expired.
        Ok(404 | 410) => {
            app.change_web_push_subscriptions(owner, |browsers| browsers.remove(id)).await?;
            return Ok(PushOutcome::Over);
        }
        Err(DeliveryError::Busy) => return Ok(PushOutcome::Wait(app.deadlines.webhook_retry_unit)),
        Ok(status @ (429 | 500..)) => (format!("the push service responded with {status}"), false),
        Ok(status) => (format!("the push service refused it with {status}"), true),
        Err(DeliveryError::Failed(cause)) => (cause, false),
    };
    let made = earlier.map_or(0, |earlier| earlier.attempts);
    let attempts = made.saturating_add(1);
    if is_final || attempts >= MAX_ATTEMPTS {
        tracing::warn!(subscription = %id, sequence, %cause, attempts, "gave up the delivery of a notification to a browser");
        return Ok(PushOutcome::Over);
    }
    tracing::debug!(subscription = %id, sequence, %cause, attempts, "failed to deliver a notification to a browser");
    // 5 s after the first attempt, and each time twice as long.
    let next_at = app.now() + app.deadlines.webhook_retry_unit * 2u32.pow(made);
    Ok(PushOutcome::Retry(PushRetry { attempts, next_at }))
}

/// Whether the browser receives a later notification of the same session, which a late delivery would replace.
async fn is_outdated(
    app: &App,
    owner: &UserId,
    subscription: &WebPushSubscription,
    notification: &Notification,
) -> Result<bool, Problem> {
    let Some(session) = notification.session_id else { return Ok(false) };
    let later = app.store.notifications_after(owner, notification.sequence, MAX_LATER).await?.items;
    Ok(later.iter().any(|it| it.session_id == Some(session) && subscription.kinds.contains(&it.kind)))
}

/// Returns the status of the response.
async fn post(
    app: &App,
    owner: &UserId,
    subscription: &WebPushSubscription,
    notification: &Notification,
) -> Result<Result<u16, DeliveryError>, Problem> {
    let integrations = &app.integrations;
    if let Err(error) = subscription.endpoint.check(integrations.egress_policy) {
        return Ok(Err(DeliveryError::Failed(format!("the address {error}"))));
    }
    let Some(sender) = &integrations.delivery_sender else {
        return Ok(Err(DeliveryError::Failed("this server delivers nothing".to_owned())));
    };
    let request = web_push::request(owner, subscription, notification, &app.secret, integrations, app.now());
    Ok(sender.deliver(&request.map_err(Problem::internal)?).await)
}
