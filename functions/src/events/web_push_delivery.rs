//! Delivers a notification to a browser, by the push service of its vendor (decision 98).
//!
//! A delivery has no record. A repeated one replaces the notification that the browser shows, and one that fails for twenty minutes is
//! given up, because the list of notifications has it anyway.

use pilothouse_app::App;
use pilothouse_app::batch::MessageOutcome;
use pilothouse_app::http::Problem;
use pilothouse_app::integrations::DeliveryError;
use pilothouse_app::web_push;
use pilothouse_domain::announcement::Notification;
use pilothouse_domain::web_push::WebPushSubscription;
use pilothouse_domain::{UserId, WebPushSubscriptionId};

/// Attempts before a delivery is given up.
const MAX_ATTEMPTS: u32 = 9;

/// `attempt`: the number of this attempt, from 1.
pub(super) async fn deliver(
    app: &App,
    owner: &UserId,
    id: WebPushSubscriptionId,
    sequence: u64,
    attempt: u32,
) -> Result<MessageOutcome, Problem> {
    let subscriptions = app.store.web_push_subscriptions(owner).await?.value;
    let Some(subscription) = subscriptions.get(id) else { return Ok(MessageOutcome::Done) };
    let Some(notification) = app.store.notification(owner, sequence).await? else {
        return Ok(MessageOutcome::Done);
    };
    // The owner has seen it elsewhere.
    if notification.value.read_at.is_some() {
        return Ok(MessageOutcome::Done);
    }
    let (cause, is_final) = match post(app, owner, subscription, &notification.value).await? {
        Ok(200..=299) => return Ok(MessageOutcome::Done),
        // The browser has cancelled its subscription, or it has expired.
        Ok(404 | 410) => {
            app.change_web_push_subscriptions(owner, |browsers| browsers.remove(id)).await?;
            return Ok(MessageOutcome::Done);
        }
        Err(DeliveryError::Busy) => return Ok(MessageOutcome::Later(app.deadlines.webhook_retry_unit)),
        Ok(status @ (429 | 500..)) => (format!("the push service responded with {status}"), false),
        Ok(status) => (format!("the push service refused it with {status}"), true),
        Err(DeliveryError::Failed(cause)) => (cause, false),
    };
    if is_final || attempt >= MAX_ATTEMPTS {
        tracing::warn!(subscription = %id, sequence, %cause, attempt, "gave up the delivery of a notification to a browser");
        return Ok(MessageOutcome::Done);
    }
    tracing::debug!(subscription = %id, sequence, %cause, attempt, "failed to deliver a notification to a browser");
    // 5 s after the first attempt, and each time twice as long.
    Ok(MessageOutcome::Later(app.deadlines.webhook_retry_unit * 2u32.pow(attempt.saturating_sub(1))))
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
