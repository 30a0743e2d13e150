//! Relays new items of the table's stream to the reactions, the event feed, the clock and the live streams.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join5;
use pilothouse_app::error_chain;
use pilothouse_app::{App, queues};
use pilothouse_broker::{MAX_BATCH, OutgoingMessage, QueueName};
use pilothouse_functions::events::relay;
use pilothouse_functions::realtime::push_queue::{self, PushOf};
use pilothouse_store::dynamodb::image;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::queue::{BatchResponse, Item};

const TRIES: u32 = 4;
/// The pause before the second attempt; it doubles with each attempt.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    dynamodb: Change<'a>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Change<'a> {
    #[serde(borrow)]
    new_image: Option<&'a RawValue>,
    #[serde(default, borrow)]
    old_image: Option<&'a RawValue>,
    sequence_number: String,
}

type Sending = (usize, OutgoingMessage);

/// Relays a batch of the stream. A record that cannot be parsed is skipped, because it would block its shard until it expires.
/// If messages of a record cannot be sent, the record is reported as failed, and the stream restarts there.
pub async fn relay(app: &App, event: &str) -> Result<BatchResponse, Failure> {
    let wrong = |source| Failure::Event { expected: "batch of the table's stream", source };
    let event: Event<'_> = serde_json::from_str(event).map_err(wrong)?;
    let mut numbers = Vec::with_capacity(event.records.len());
    let mut reactions = Vec::new();
    let mut announcements = Vec::new();
    let mut reviews = Vec::new();
    let mut deadlines = Vec::new();
    let mut pushes: BTreeMap<PushOf, usize> = BTreeMap::new();
    for (at, raw) in event.records.iter().enumerate() {
        let record: Record<'_> = serde_json::from_str(raw.get()).map_err(wrong)?;
        numbers.push(record.dynamodb.sequence_number);
        let Some(new) = record.dynamodb.new_image else { continue };
        match messages_for(app, new, record.dynamodb.old_image) {
            Ok(messages) => {
                reactions.extend(messages.reaction.map(|message| (at, message)));
                announcements.extend(messages.announcement.map(|message| (at, message)));
                reviews.extend(messages.review.map(|message| (at, message)));
                deadlines.extend(messages.deadline.map(|message| (at, message)));
                for push in messages.pushes {
                    pushes.entry(push).or_insert(at);
                }
            }
            Err(error) => {
                let number = numbers.last();
                tracing::error!(number, cause = %error_chain(error.as_ref()), "skipped a record of the stream");
            }
        }
    }
    let sent = join5(
        send(app, queues::reactions(), reactions),
        send(app, queues::announcements(), announcements),
        send(app, queues::reviews(), reviews),
        send(app, queues::deadlines(), deadlines),
        push(app, pushes),
    );
    let failed = <[_; 5]>::from(sent.await).into_iter().flatten().min();
    let failed = failed.and_then(|at| numbers.into_iter().nth(at));
    Ok(BatchResponse {
        batch_item_failures: failed.map(|item_identifier| Item { item_identifier }).into_iter().collect(),
    })
}

fn messages_for(
    app: &App,
    new: &RawValue,
    old: Option<&RawValue>,
) -> Result<relay::RelayedMessages, Box<dyn std::error::Error + Send + Sync>> {
    let item = image::read(new.get())?;
    let mut messages = relay::messages_for(&item, app.now())?;
    // An unchanged deadline already has its message.
    if messages.deadline.is_some()
        && let Some(old) = old
        && image::read(old.get()).is_ok_and(|before| before.due == item.due)
    {
        messages.deadline = None;
    }
    Ok(messages)
}

/// Triggers pushes of what connections follow. Returns the first record that failed, if any.
async fn push(app: &App, pushes: BTreeMap<PushOf, usize>) -> Option<usize> {
    let mut messages = Vec::new();
    let mut failed = None;
    for (push, at) in pushes {
        match push_queue::is_watched(&app.store, &push).await {
            Ok(false) => {}
            Ok(true) => match push_queue::message(&push) {
                Ok(message) => messages.push((at, message)),
                Err(error) => tracing::error!(?push, %error, "failed to trigger a push"),
            },
            Err(error) => {
                tracing::warn!(?push, cause = %error_chain(&error), "failed to check whether connections follow a change");
                failed = [failed, Some(at)].into_iter().flatten().min();
            }
        }
    }
    let unsent = send(app, queues::pushes(), messages).await;
    [failed, unsent].into_iter().flatten().min()
}

/// Sends messages in order, with retries. Returns the first record that failed, if any.
async fn send(app: &App, queue: QueueName, messages: Vec<Sending>) -> Option<usize> {
    for batch in messages.chunks(MAX_BATCH) {
        let mut left = batch.to_vec();
        let mut pause = PAUSE;
        for attempt in 1..=TRIES {
            let outgoing = left.iter().map(|(_, message)| message.clone()).collect();
            match app.broker.send(&queue, outgoing).await {
                Ok(outcome) => {
                    for (_, error) in outcome.failed.iter().take(1) {
                        tracing::warn!(queue = queue.as_str(), attempt, %error, "some messages were refused");
                    }
                    let failed: Vec<usize> = outcome.failed.into_iter().map(|(at, _)| at).collect();
                    left = failed.into_iter().filter_map(|at| left.get(at).cloned()).collect();
                }
                Err(error) => {
                    tracing::warn!(queue = queue.as_str(), attempt, cause = %error_chain(&error), "failed to send messages");
                }
            }
            if left.is_empty() {
                break;
            }
            if attempt < TRIES {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
        }
        if let Some(first) = left.iter().map(|(at, _)| *at).min() {
            return Some(first);
        }
    }
    None
}
