//! Sends the spool in order: never an envelope before the one before it is accepted.

use std::sync::Arc;

use pilothouse_wire::gateway::SendEntry;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::link::Link;
use crate::retry::Backoff;
use crate::spool::{BatchEntry, Spool, SpoolError};

/// The most entries of a request, as SQS has it.
const MOST_ENTRIES: usize = 10;
/// About the most bytes of a request, so that one answer is not waited for too long.
const MOST_BYTES: usize = 256 * 1024;

/// Why publishing ended.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The broker refused the run for good.
    #[error("the broker refuses this run")]
    Rejected(#[source] BrokerError),
    /// The spool does not work.
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// The one that publishes the spool of a run.
pub struct Publisher {
    spool: Spool,
    broker: Broker,
    link: Arc<Link>,
    faults: Faults,
    backoff: Backoff,
    drained: watch::Sender<bool>,
}

impl Publisher {
    /// A publisher that waits as `backoff` says after a failed request, and what tells whether everything that was
    /// spooled so far is accepted.
    pub fn new(
        spool: Spool,
        broker: Broker,
        link: Arc<Link>,
        faults: Faults,
        backoff: Backoff,
    ) -> (Self, watch::Receiver<bool>) {
        let (drained, watcher) = watch::channel(false);
        (Self { spool, broker, link, faults, backoff, drained }, watcher)
    }

    /// Publishes until the broker refuses for good.
    pub async fn run(self) -> PublishError {
        loop {
            if let Err(e) = self.drain().await {
                return e;
            }
            self.spool.changed().await;
        }
    }

    /// Publishes until nothing is left, however long it takes.
    pub async fn drain(&self) -> Result<(), PublishError> {
        let mut backoff = self.backoff.clone();
        loop {
            self.faults.while_silent(&self.link).await;
            let batch = self.spool.batch(MOST_ENTRIES, MOST_BYTES).await?.entries;
            self.drained.send_replace(batch.is_empty());
            if batch.is_empty() {
                return Ok(());
            }
            let size = batch.len();
            match self.send(batch).await? {
                Ok(accepted) if accepted == size => backoff.reset(),
                Ok(accepted) => {
                    debug!(accepted, size, "the broker took a part");
                    tokio::time::sleep(backoff.failed()).await;
                }
                Err(e) if e.is_final() => return Err(PublishError::Rejected(e)),
                Err(e) => {
                    let wait = backoff.failed();
                    warn!(error = &e as &dyn std::error::Error, ?wait, "events wait");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// One request, after the blobs that it refers to. Answers how many entries were accepted.
    async fn send(&self, batch: Vec<BatchEntry>) -> Result<Result<usize, BrokerError>, SpoolError> {
        let last = batch.iter().map(|entry| entry.sequence).max().unwrap_or(0);
        while let Some(blob) = self.spool.next_blob(last).await? {
            let sha256 = blob.sha256.clone();
            if let Err(e) = self.broker.put_blob(blob).await {
                return Ok(Err(e));
            }
            self.spool.blob_stored(sha256).await?;
        }
        let deliveries: Vec<_> = batch.iter().map(|entry| (entry.sequence, entry.attempt)).collect();
        let entries = batch.into_iter().map(|BatchEntry { message_id, attempt, body, .. }| SendEntry {
            deduplication_id: format!("{message_id}:{attempt}"),
            body,
        });
        match self.broker.send(entries.collect()).await {
            Ok(result) => {
                let accepted: Vec<_> =
                    result.accepted.iter().filter_map(|at| deliveries.get(*at).copied()).collect();
                let count = accepted.len();
                if count > 0 {
                    self.link.published();
                    self.spool.accepted(accepted).await?;
                }
                Ok(Ok(count))
            }
            Err(e) => Ok(Err(e)),
        }
    }
}
