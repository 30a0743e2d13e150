//! Triggers functions with messages from queues. In `aws` event source mappings do this.

use std::future::Future;

use pilothouse_app::error_chain;
use pilothouse_app::{App, queues};
use pilothouse_broker::embedded::EmbeddedBroker;
use pilothouse_broker::{Broker, MAX_BATCH, MAX_WAIT, QueueError, QueueName, Received};
use pilothouse_functions::events::{coherence_review, event_feed, intake, webhook_delivery};
use pilothouse_functions::reactions;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::waiting::{RETRY_DELAY, WritableDisk};

/// Most concurrent batches of deliveries. They mostly wait for endpoints; the webhook sender limits how many of them send at once.
const MAX_DELIVERY_BATCHES: usize = 512;

/// Receives batches of at most `size` messages from a queue and processes them, forever.
async fn consume<F, W>(broker: EmbeddedBroker, mut disk: WritableDisk, queue: QueueName, size: usize, work: F)
where
    F: Fn(Vec<Received>) -> W,
    W: Future<Output = Result<(), QueueError>>,
{
    loop {
        disk.ready().await;
        let outcome = match broker.receive(&queue, size, MAX_WAIT).await {
            Ok(batch) if batch.is_empty() => continue,
            Ok(batch) => work(batch).await,
            Err(error) => Err(error),
        };
        if let Err(error) = outcome {
            tracing::error!(queue = queue.as_str(), cause = %error_chain(&error), "failed to process a batch");
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

pub(super) async fn consume_events(app: App, broker: EmbeddedBroker, disk: WritableDisk) {
    consume(broker, disk, queues::events(), MAX_BATCH, |batch| intake::process_and_settle(&app, batch)).await;
}

pub(super) async fn consume_reactions(app: App, broker: EmbeddedBroker, disk: WritableDisk) {
    consume(broker, disk, queues::reactions(), MAX_BATCH, |batch| reactions::process_and_settle(&app, batch))
        .await;
}

pub(super) async fn consume_notifications(app: App, broker: EmbeddedBroker, disk: WritableDisk) {
    consume(broker, disk, queues::announcements(), MAX_BATCH, |batch| {
        event_feed::process_and_settle(&app, batch)
    })
    .await;
}

pub(super) async fn consume_reviews(app: App, broker: EmbeddedBroker, disk: WritableDisk) {
    // One at a time, so that the visibility timeout of a message does not end while an earlier one waits for a slow model.
    consume(broker, disk, queues::reviews(), 1, |batch| coherence_review::process_and_settle(&app, batch))
        .await;
}

/// Processes each batch in a separate task, so that a slow endpoint does not delay the others.
pub(super) async fn consume_deliveries(app: App, broker: EmbeddedBroker, disk: WritableDisk) {
    let under_way = Mutex::new(JoinSet::new());
    consume(broker, disk, queues::webhooks(), MAX_BATCH, |batch| async {
        let mut under_way = under_way.lock().await;
        while under_way.len() >= MAX_DELIVERY_BATCHES {
            under_way.join_next().await;
        }
        while under_way.try_join_next().is_some() {}
        let app = app.clone();
        under_way.spawn(async move {
            if let Err(error) = webhook_delivery::process_and_settle(&app, batch).await {
                tracing::error!(cause = %error_chain(&error), "failed to process deliveries");
            }
        });
        Ok(())
    })
    .await;
}
