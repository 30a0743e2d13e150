//! SQS and S3, accessed with the run's granted credentials.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::receive_message::ReceiveMessageError;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, SendMessageBatchRequestEntry};
use pilothouse_domain::AgentSessionId;
use pilothouse_wire::gateway::{ReceivedCommand, SendEntry, SendResult};
use reqwest::StatusCode;
use tokio::time::{Instant, timeout};
use tracing::{debug, warn};
use uuid::Uuid;

use super::control_plane::{ControlPlane, Purpose, TIMEOUT};
use super::grants::{Grant, Grants};
use super::{BrokerError, s3};
use crate::oversize::Blob;

const MAX_ENTRIES: usize = 10;
/// SQS accepts more by now; a local cloud may not.
const MAX_BYTES: usize = 256 * 1024;
/// How long SQS may not know a new queue. Its documentation says one second.
const QUEUE_APPEARS: Duration = Duration::from_secs(15);

/// The queues and blobs of one run.
#[derive(Clone)]
pub struct Sqs(Arc<Inner>);

struct Inner {
    grants: Grants,
    http: reqwest::Client,
    /// Message group of all events: the session.
    group: String,
    started: Instant,
    /// Whether the command queue was ever found. From then on, its absence means that the run is over.
    seen: AtomicBool,
    /// Id of a receive request until its response arrives. SQS answers a repeated request with the same messages,
    /// which would otherwise stay hidden for the visibility timeout if the response was lost.
    attempt: Mutex<Uuid>,
}

impl Sqs {
    pub fn new(
        control_plane: ControlPlane,
        http: reqwest::Client,
        session: AgentSessionId,
        purpose: Purpose,
    ) -> Self {
        Self(Arc::new(Inner {
            grants: Grants::new(control_plane, purpose),
            http,
            group: session.to_string(),
            started: Instant::now(),
            seen: AtomicBool::new(false),
            attempt: Mutex::new(Uuid::now_v7()),
        }))
    }

    /// Sends in order, in as many requests as needed. Stops at the first request that is not fully accepted.
    pub(super) async fn send(&self, entries: Vec<SendEntry>) -> Result<SendResult, BrokerError> {
        let grant = self.0.grants.current().await?;
        let mut accepted = Vec::with_capacity(entries.len());
        let mut first = 0;
        for batch in batches(entries) {
            let size = batch.len();
            match self.send_batch(&grant, batch).await {
                Ok(positions) => {
                    let whole = positions.len() == size;
                    accepted.extend(positions.into_iter().map(|at| first + at));
                    if !whole {
                        break;
                    }
                }
                // Earlier requests count as accepted. The next attempt reports the error.
                Err(_) if !accepted.is_empty() => break,
                Err(error) => return Err(error),
            }
            first += size;
        }
        Ok(SendResult { accepted })
    }

    /// Returns the positions in the batch that SQS accepted.
    async fn send_batch(&self, grant: &Arc<Grant>, batch: Vec<SendEntry>) -> Result<Vec<usize>, BrokerError> {
        let entries = batch.into_iter().enumerate().map(|(at, entry)| {
            SendMessageBatchRequestEntry::builder()
                .id(at.to_string())
                .message_group_id(&self.0.group)
                .message_deduplication_id(entry.deduplication_id)
                .message_body(entry.body)
                .build()
                .map_err(|e| BrokerError::Sqs(e.into()))
        });
        let request = grant
            .sqs
            .send_message_batch()
            .queue_url(&grant.access.events_queue_url)
            .set_entries(Some(entries.collect::<Result<_, _>>()?));
        let output = timeout(TIMEOUT, request.send()).await.map_err(|_| BrokerError::Late)?;
        let output = match output {
            Ok(output) => output,
            Err(error) => return Err(self.failed(grant, error).await),
        };
        for failed in output.failed() {
            warn!(code = failed.code(), message = failed.message(), "SQS rejected an event");
        }
        Ok(output.successful().iter().filter_map(|entry| entry.id().parse().ok()).collect())
    }

    pub(super) async fn receive(
        &self,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<ReceivedCommand>, BrokerError> {
        let grant = self.0.grants.current().await?;
        let attempt = *self.0.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        let request = grant
            .sqs
            .receive_message()
            .queue_url(&grant.access.commands_queue_url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(1))
            .wait_time_seconds(i32::try_from(wait.as_secs()).unwrap_or(0))
            .receive_request_attempt_id(attempt.to_string());
        let Ok(output) = timeout(wait + TIMEOUT, request.send()).await else { return Err(BrokerError::Late) };
        match output {
            Ok(output) => {
                self.0.seen.store(true, Ordering::Relaxed);
                *self.0.attempt.lock().unwrap_or_else(PoisonError::into_inner) = Uuid::now_v7();
                Ok(output.messages.unwrap_or_default().into_iter().filter_map(received).collect())
            }
            Err(error) if is_gone(&error) && self.would_be_there() => Err(BrokerError::RunOver),
            Err(error) => Err(self.failed(&grant, error).await),
        }
    }

    pub(super) async fn delete(&self, receipts: Vec<String>) -> Result<(), BrokerError> {
        let grant = self.0.grants.current().await?;
        let entries = receipts.into_iter().enumerate().map(|(at, receipt)| {
            DeleteMessageBatchRequestEntry::builder()
                .id(at.to_string())
                .receipt_handle(receipt)
                .build()
                .map_err(|e| BrokerError::Sqs(e.into()))
        });
        let request = grant
            .sqs
            .delete_message_batch()
            .queue_url(&grant.access.commands_queue_url)
            .set_entries(Some(entries.collect::<Result<_, _>>()?));
        match timeout(TIMEOUT, request.send()).await.map_err(|_| BrokerError::Late)? {
            Ok(output) => {
                // SQS delivers them again, and the spool ignores them.
                for failed in output.failed() {
                    debug!(code = failed.code(), "SQS failed to delete a command");
                }
                Ok(())
            }
            Err(error) => Err(self.failed(&grant, error).await),
        }
    }

    pub(super) async fn put_blob(&self, blob: Blob) -> Result<(), BrokerError> {
        let grant = self.0.grants.current().await?;
        let response = s3::put(&self.0.http, &grant, blob).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        let text = response.text().await.unwrap_or_default();
        warn!(%status, text = %text.chars().take(500).collect::<String>(), "S3 rejected a blob");
        if matches!(status, StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN)
            && REFUSALS.iter().any(|code| text.contains(code))
        {
            self.0.grants.refused(&grant).await;
        }
        Err(BrokerError::Status(status))
    }

    /// Whether an existing command queue must be visible in SQS by now.
    fn would_be_there(&self) -> bool {
        self.0.seen.load(Ordering::Relaxed) || self.0.started.elapsed() > QUEUE_APPEARS
    }

    /// Classifies a failed request. Refused credentials are discarded, so that the next request fetches new ones.
    async fn failed<E>(&self, grant: &Arc<Grant>, error: SdkError<E>) -> BrokerError
    where
        E: std::error::Error + ProvideErrorMetadata + Send + Sync + 'static,
    {
        if error.code().is_some_and(|code| REFUSALS.contains(&code)) {
            self.0.grants.refused(grant).await;
        }
        BrokerError::Sqs(Box::new(error))
    }
}

/// Error codes of SQS and S3 for credentials that are invalid or expired.
const REFUSALS: [&str; 6] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "InvalidToken",
    "InvalidAccessKeyId",
];

/// Whether SQS reports that the queue does not exist.
fn is_gone(error: &SdkError<ReceiveMessageError>) -> bool {
    error.as_service_error().is_some_and(ReceiveMessageError::is_queue_does_not_exist)
        || matches!(error.code(), Some("QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue"))
}

fn received(message: Message) -> Option<ReceivedCommand> {
    Some(ReceivedCommand { receipt: message.receipt_handle?, body: message.body? })
}

/// Splits entries into requests within SQS's limits, in order.
fn batches(entries: Vec<SendEntry>) -> Vec<Vec<SendEntry>> {
    let mut batches: Vec<Vec<SendEntry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let size = entry.body.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < MAX_ENTRIES && bytes + size <= MAX_BYTES => {
                bytes += size;
                batch.push(entry);
            }
            _ => {
                bytes = size;
                batches.push(vec![entry]);
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_at_most_ten_entries_and_256_kib() {
        let entry = |bytes: usize| SendEntry { deduplication_id: String::new(), body: "x".repeat(bytes) };
        let sizes = |entries: Vec<SendEntry>| batches(entries).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes((0..25).map(|_| entry(10)).collect()), [10, 10, 5]);
        assert_eq!(sizes(vec![entry(100_000), entry(100_000), entry(100_000), entry(1)]), [2, 2]);
        assert_eq!(sizes(vec![entry(MAX_BYTES), entry(1), entry(MAX_BYTES + 1)]), [1, 1, 1]);
        assert_eq!(sizes(vec![]), [0usize; 0]);
    }
}
