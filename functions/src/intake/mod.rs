//! The intake: takes raw events from the broker and applies them, in order and once (architecture: Messages, ruling 9).
//!
//! A batch is taken apart by session. Each session is loaded once; its events go through their mappings in order; one
//! commit carries the session, its queue and a journal entry an event. A message that fails stalls only its session.

mod apply;
mod body;
mod open;

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use pilothouse_broker::{QueueError, Received};
use pilothouse_domain::AgentSessionId;

pub use apply::apply_ready;

use crate::app::{App, METRICS};
use crate::edge::Problem;
use crate::queues::{self, Settlement};
use open::Opened;

/// Takes one batch and settles it on the events queue. What is applied, quarantined or refused is deleted; what failed
/// is there again later, until its last try, when it goes to the dead letters alone and its session goes on.
pub async fn handle(app: &App, batch: Vec<Received>) -> Result<(), QueueError> {
    let settlement = process(app, batch).await;
    queues::settle(app.broker.as_ref(), &queues::events(), settlement).await
}

/// Takes one batch, as [`handle`] does, and leaves it to the caller to settle it.
pub async fn process(app: &App, batch: Vec<Received>) -> Settlement {
    let mut settlement = Settlement::default();
    let mut sessions: BTreeMap<AgentSessionId, Vec<(Received, Opened)>> = BTreeMap::new();
    let mut spans = Vec::new();
    for message in batch {
        match open::open(app, &message) {
            Ok((session, mut opened)) => {
                spans.extend(opened.begin(session).map(|span| (message.receipt.clone(), span)));
                sessions.entry(session).or_default().push((message, opened));
            }
            Err(refused) => {
                // Nothing in it may be believed, so it consumes nothing and is shown to nobody (ruling 9).
                tracing::warn!(group = %message.group, cause = %refused, "a message was refused");
                settlement.done.push(message.receipt);
            }
        }
    }
    for (session, messages) in sessions {
        let (received, opened): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        match apply::apply(app, session, &opened).await {
            Ok(()) => {
                tracing::trace!(target: METRICS, events_applied = received.len());
                settlement.done.extend(received.into_iter().map(|message| message.receipt));
            }
            Err(cause) => {
                let mut pause = Duration::ZERO;
                let (applied, rest) = one_by_one(app, session, received, opened, &cause, &mut pause).await;
                settlement.done.extend(applied);
                if !rest.is_empty() {
                    settlement.again.push((rest, pause));
                }
            }
        }
    }
    let again: HashSet<_> = settlement.again.iter().flat_map(|(receipts, _)| receipts).collect();
    for (receipt, span) in spans {
        span.end(again.contains(&receipt).then_some(&ComesAgain as _));
    }
    settlement
}

/// What the span of a message says that could not be applied; the log says why.
#[derive(Debug, thiserror::Error)]
#[error("it could not be applied and comes again")]
struct ComesAgain;

type Receipts = Vec<pilothouse_broker::Receipt>;

/// A group that failed as a whole is tried message by message, so that only the one that fails waits, with what
/// follows it. At its last try that one is buried and its sequence counts as consumed (ruling 9).
async fn one_by_one(
    app: &App,
    session: AgentSessionId,
    received: Vec<Received>,
    opened: Vec<Opened>,
    cause: &Problem,
    pause: &mut Duration,
) -> (Receipts, Receipts) {
    tracing::warn!(%session, cause = %chain(cause), "events could not be applied together");
    let mut done = Vec::new();
    let mut messages = received.into_iter().zip(opened);
    while let Some((message, opened)) = messages.next() {
        let Err(cause) = apply::apply(app, session, std::slice::from_ref(&opened)).await else {
            done.push(message.receipt);
            continue;
        };
        let tries = queues::tries(&cause);
        let cause = chain(&cause);
        if message.receive_count >= tries && bury(app, session, &message, &opened, &cause).await {
            continue;
        }
        tracing::warn!(%session, %cause, receive_count = message.receive_count, "an event could not be applied");
        *pause = queues::pause(message.receive_count);
        let rest =
            std::iter::once(message.receipt).chain(messages.map(|(message, _)| message.receipt)).collect();
        return (done, rest);
    }
    (done, Vec::new())
}

async fn bury(app: &App, session: AgentSessionId, message: &Received, opened: &Opened, cause: &str) -> bool {
    if let Err(error) = apply::set_aside(app, session, opened, cause).await {
        tracing::error!(%session, cause = %chain(&error), "an event could not be set aside");
        return false;
    }
    match app.broker.bury(&queues::events(), message, cause).await {
        Ok(()) => true,
        Err(error) => {
            tracing::error!(%session, %error, "an event could not be moved to the dead letters");
            false
        }
    }
}

/// An error with everything under it, on one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
