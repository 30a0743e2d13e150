//! Publishes the spool in order: an envelope is sent only after its predecessor was accepted.

use std::sync::Arc;

use pilothouse_wire::gateway::SendEntry;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::broker::{Broker, BrokerError};
use crate::faults::Faults;
use crate::lease::{Lease, Moment};
use crate::link::Link;
use crate::retry::Backoff;
use crate::spool::{BatchEntry, Spool, SpoolError};

/// The limit of SQS.
const MAX_ENTRIES: usize = 10;
/// Approximate size limit of a request, which limits the time until a response.
const MAX_BYTES: usize = 256 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The broker refused the run for good.
    #[error("the broker refuses this run")]
    Rejected(#[source] BrokerError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// No publish was accepted for the length of the run's lease.
    #[error("the lease of this run has expired")]
    LeaseExpired,
}

/// State that an accepted publish updates.
#[derive(Clone, Default)]
pub struct Connection {
    pub link: Arc<Link>,
    /// How long the agent may run without the control plane.
    pub lease: Lease,
}

impl Connection {
    /// Records that a request sent at `sent` was accepted.
    pub fn published(&self, sent: Moment) {
        self.link.published();
        self.lease.renew(sent);
    }
}

pub struct Publisher {
    spool: Spool,
    broker: Broker,
    connection: Connection,
    faults: Faults,
    backoff: Backoff,
    drained: watch::Sender<bool>,
}

impl Publisher {
    /// Creates a publisher that waits for `backoff` after a failed request. The receiver is true while everything in
    /// the spool is accepted.
    pub fn new(
        spool: Spool,
        broker: Broker,
        connection: Connection,
        faults: Faults,
        backoff: Backoff,
    ) -> (Self, watch::Receiver<bool>) {
        let (drained, watcher) = watch::channel(false);
        (Self { spool, broker, connection, faults, backoff, drained }, watcher)
    }

    /// Publishes until the broker refuses the run for good.
    pub async fn run(self) -> PublishError {
        loop {
            if let Err(e) = self.drain().await {
                return e;
            }
            self.spool.changed().await;
        }
    }

    /// Publishes until the spool is empty, without a time limit.
    pub async fn drain(&self) -> Result<(), PublishError> {
        let mut backoff = self.backoff.clone();
        loop {
            self.faults.while_silent().await;
            let batch = self.spool.batch(MAX_ENTRIES, MAX_BYTES).await?.entries;
            self.drained.send_replace(batch.is_empty());
            if batch.is_empty() {
                return Ok(());
            }
            let size = batch.len();
            let sent = self.connection.lease.before_publish().ok_or(PublishError::LeaseExpired)?;
            match self.send(batch, sent).await? {
                Ok(accepted) if accepted == size => backoff.reset(),
                Ok(accepted) => {
                    if accepted == 0 {
                        self.connection.link.failed();
                    }
                    debug!(accepted, size, "the broker accepted part of a batch");
                    tokio::time::sleep(backoff.failed()).await;
                }
                Err(e) if e.is_final() => return Err(PublishError::Rejected(e)),
                Err(e) => {
                    self.connection.link.failed();
                    let wait = backoff.failed();
                    warn!(error = &e as &dyn std::error::Error, ?wait, "events wait");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    /// Uploads the blobs of the next batch, then sends it. Returns the number of accepted entries.
    async fn send(
        &self,
        batch: Vec<BatchEntry>,
        sent: Moment,
    ) -> Result<Result<usize, BrokerError>, SpoolError> {
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
                    self.connection.published(sent);
                    self.spool.accepted(accepted).await?;
                }
                Ok(Ok(count))
            }
            Err(e) => Ok(Err(e)),
        }
    }
}
