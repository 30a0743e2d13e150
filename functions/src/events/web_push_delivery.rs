//! Delivers a notification to a browser, by the push service of its vendor (decision 98).
//!
//! A delivery has no record. A repeated one replaces the notification that the browser shows, and one that fails for twenty minutes is
//! given up, because the list of notifications has it anyway.

use std::time::Duration;

use pilothouse_app::App;
use pilothouse_app::batch::MessageOutcome;
use pilothouse_app::http::Problem;
use pilothouse_app::integrations::DeliveryError;
use pilothouse_app::unit_of_work::{Decision, RetryPolicy};
use pilothouse_app::web_push;
use pilothouse_domain::web_push::{WebPushSubscription, WebPushSubscriptions};
use pilothouse_domain::{DomainContext, UserId, WebPushSubscriptionId};
use pilothouse_store::{Commit, Loaded};

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
    let request = web_push::request(
        owner,
        subscription,
        &notification.value,
        &app.secret,
        &app.integrations,
        app.now(),
    )
    .map_err(Problem::internal)?;
    let cause = match &app.integrations.delivery_sender {
        None => "this server delivers nothing".to_owned(),
        Some(_) if subscription.endpoint.check(app.integrations.egress_policy).is_err() => {
            "the address may not be reached".to_owned()
        }
        Some(sender) => match sender.deliver(&request).await {
            Ok(200..=299) => return Ok(MessageOutcome::Done),
            // The browser has cancelled its subscription, or it has expired.
            Ok(404 | 410) => {
                return remove(app, owner, id).await.map(|_| MessageOutcome::Done);
            }
            Err(DeliveryError::Busy) => {
                return Ok(MessageOutcome::Later(app.deadlines.webhook_retry_unit));
            }
            Ok(status @ (429 | 500..)) if attempt < MAX_ATTEMPTS => {
                return Ok(later(app, id, attempt, &status.to_string()));
            }
            Err(DeliveryError::Failed(cause)) if attempt < MAX_ATTEMPTS => {
                return Ok(later(app, id, attempt, &cause));
            }
            Ok(status) => format!("the push service responded with {status}"),
            Err(DeliveryError::Failed(cause)) => cause,
        },
    };
    tracing::warn!(subscription = %id, sequence, %cause, attempt, "gave up the delivery of a notification to a browser");
    Ok(MessageOutcome::Done)
}

/// Waits 5 s after the first attempt, and each time twice as long.
fn later(app: &App, id: WebPushSubscriptionId, attempt: u32, cause: &str) -> MessageOutcome {
    tracing::debug!(subscription = %id, %cause, attempt, "failed to deliver a notification to a browser");
    let pause: Duration =
        app.deadlines.webhook_retry_unit * 2u32.pow(attempt.saturating_sub(1).min(MAX_ATTEMPTS));
    MessageOutcome::Later(pause)
}

/// Removes a subscription of an owner. Returns it, or `None` if there is none with this id.
pub(crate) async fn remove(
    app: &App,
    owner: &UserId,
    id: WebPushSubscriptionId,
) -> Result<Option<WebPushSubscription>, Problem> {
    let load = async || app.store.web_push_subscriptions(owner).await.map_err(Problem::from);
    let decide = |mut known: Loaded<WebPushSubscriptions>, _: &mut DomainContext<'_>| {
        let removed = known.value.get(id).cloned();
        if !known.value.remove(id) {
            return Ok(Decision::Unchanged(None));
        }
        let mut commit = Commit::new();
        commit.web_push_subscriptions(owner, &known)?;
        Ok(Decision::Commit(commit, removed))
    };
    app.unit_of_work().run(RetryPolicy::COMMAND, load, decide).await
}
