//! The intake: applies raw events from the broker in order and exactly once (ARCHITECTURE.md, The path of an event; decision 9).
//!
//! A batch is grouped by session, and sessions are processed at the same time. Each session is loaded once, its events are mapped in
//! order, and one commit writes the session, its queue and a journal entry for each event. A message that fails blocks only its session.

mod apply;
mod body;
mod enrich;
mod event_body;
mod open;
mod quarantine;
mod repair;

use std::collections::{BTreeMap, HashSet};

use futures_util::future::join_all;
use pilothouse_app::function::requirements::{EVENTS, INTAKE};
use pilothouse_app::function::{EventFunction, Subscription};
use pilothouse_broker::{QueueError, Received};
use pilothouse_domain::AgentSessionId;

pub use apply::apply_ready;

use open::Opened;
use pilothouse_app::batch::{BatchOutcome, Retry};
use pilothouse_app::error_chain;
use pilothouse_app::http::Problem;
use pilothouse_app::queues;
use pilothouse_app::{App, METRICS};

pub const FUNCTION: EventFunction = EventFunction::new(
    "intake",
    &[Subscription::queue(EVENTS, |ctx, batch| Box::pin(async move { Ok(process(&ctx.app, batch).await) }))],
    INTAKE,
)
.summary("Apply raw events to their sessions in order");

/// Processes a batch of the events queue and settles it. Messages that are applied, quarantined or refused are deleted. Messages
/// that fail are retried; after the last attempt only the failing message becomes a dead letter.
pub async fn process_and_settle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let outcome = process(app, batch).await;
    pilothouse_app::batch::settle(app.broker.as_ref(), &queues::events(), outcome).await
}

/// Processes a batch like [`process_and_settle`]. The caller settles it.
pub async fn process(app: &App, batch: Vec<Received>) -> BatchOutcome {
    let mut outcome = BatchOutcome::default();
    let mut sessions: BTreeMap<AgentSessionId, Vec<(Received, Opened)>> = BTreeMap::new();
    let mut spans = Vec::new();
    for message in batch {
        match open::open(app, &message) {
            Ok((session, mut opened)) => {
                spans.extend(opened.begin(session).map(|span| (message.receipt.clone(), span)));
                sessions.entry(session).or_default().push((message, opened));
            }
            Err(refused) => {
                // Its content cannot be trusted, so it consumes no sequence and is not recorded (decision 9).
                tracing::warn!(group = %message.group, cause = %refused, "a message was refused");
                outcome.done.push(message.receipt);
            }
        }
    }
    let applied = sessions.into_iter().map(|(session, messages)| apply_all(app, session, messages));
    for (done, rest) in join_all(applied).await {
        outcome.done.extend(done);
        if let Some((rest, retry)) = rest {
            outcome.add_retry(rest, retry);
        }
    }
    let retried: HashSet<_> = outcome.retry.iter().flat_map(|(receipts, _)| receipts).collect();
    for (receipt, span) in spans {
        span.end(retried.contains(&receipt).then_some(&RetryScheduled as _));
    }
    outcome
}

/// The failure that the span of a message records if the message could not be applied. The log has the cause.
#[derive(Debug, thiserror::Error)]
#[error("failed to apply the event; it will be retried")]
struct RetryScheduled;

type Receipts = Vec<pilothouse_broker::Receipt>;

/// Applies the messages of a session. Returns the messages that are done, and those to retry.
async fn apply_all(
    app: &App,
    session: AgentSessionId,
    messages: Vec<(Received, Opened)>,
) -> (Receipts, Option<(Receipts, Retry)>) {
    let (received, opened): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
    match apply::apply(app, session, &opened).await {
        Ok(()) => {
            tracing::trace!(target: METRICS, events_applied = received.len());
            (received.into_iter().map(|message| message.receipt).collect(), None)
        }
        Err(cause) => one_by_one(app, session, received, opened, &cause).await,
    }
}

/// Applies the messages of a failed group one by one, so that only the failing message and its successors wait. After the last
/// attempt the failing message becomes a dead letter and its sequence counts as consumed (decision 9).
async fn one_by_one(
    app: &App,
    session: AgentSessionId,
    received: Vec<Received>,
    opened: Vec<Opened>,
    cause: &Problem,
) -> (Receipts, Option<(Receipts, Retry)>) {
    tracing::warn!(%session, cause = %error_chain(cause), "events could not be applied together");
    let mut done = Vec::new();
    let mut messages = received.into_iter().zip(opened);
    while let Some((message, opened)) = messages.next() {
        let Err(cause) = apply::apply(app, session, std::slice::from_ref(&opened)).await else {
            done.push(message.receipt);
            continue;
        };
        let tries = pilothouse_app::batch::max_receives(&cause);
        let retry = pilothouse_app::batch::retry_after(&cause, message.receive_count);
        let cause = error_chain(&cause);
        if message.receive_count >= tries && dead_letter(app, session, &message, &opened, &cause).await {
            continue;
        }
        tracing::warn!(%session, %cause, receive_count = message.receive_count, "an event could not be applied");
        let rest =
            std::iter::once(message.receipt).chain(messages.map(|(message, _)| message.receipt)).collect();
        return (done, Some((rest, retry)));
    }
    (done, None)
}

async fn dead_letter(
    app: &App,
    session: AgentSessionId,
    message: &Received,
    opened: &Opened,
    cause: &str,
) -> bool {
    if let Err(error) = quarantine::quarantine_event(app, session, opened, cause).await {
        tracing::error!(%session, cause = %error_chain(&error), "failed to quarantine an event");
        return false;
    }
    match app.broker.dead_letter(&queues::events(), message, cause).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%session, %error, "failed to move an event to the dead letters");
            false
        }
    }
}
