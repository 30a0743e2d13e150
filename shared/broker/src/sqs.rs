//! The broker of the `aws` profile: SQS queues.
//!
//! A queue `{name}.fifo` is called `{prefix}-{name}.fifo` in SQS, and its dead-letter queue `{prefix}-{name}-dead.fifo`. A standard
//! queue `{name}` is called `{prefix}-{name}`, with `{prefix}-{name}-dead`. Queue URLs are looked up once.
//!
//! Differences from the embedded engine:
//!
//! - A receipt whose visibility timeout is over deletes nothing, even if the message was not received again.
//! - When SQS itself moves a message to the dead letters at the limit of receives, messages that were received together with it as
//!   often move too. Consumers therefore move failing messages themselves (decision 9), and the limit is a safeguard.
//! - Messages of a process that ended stay in flight until their timeout.
//! - Changes of options and removals take up to a minute. The name of a removed queue can be used again after that.

mod addresses;
mod errors;
mod messages;
mod names;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, MessageSystemAttributeName,
    QueueAttributeName,
};

use crate::queue::{
    Broker, DEAD_LETTER_VISIBILITY_TIMEOUT, DeadLetter, Depth, MAX_BATCH, MAX_WAIT, OutgoingMessage,
    QueueError, QueueName, QueueOptions, Receipt, Received, SendOutcome,
};
use addresses::Addresses;
use names::Names;

pub use messages::{CAUSE, RECEIVES, REDRIVEN};
pub use names::InvalidPrefix;

/// Longest visibility timeout (SQS).
const MAX_VISIBILITY: Duration = Duration::from_hours(12);
/// How long a dead letter is kept, which is the maximum of SQS.
const DEAD_LETTER_RETENTION: Duration = Duration::from_hours(14 * 24);
/// Time for the response of a poll beyond its wait.
const POLL_GRACE: Duration = Duration::from_secs(10);
/// Time for moving a message to the dead letters, during which it is hidden.
const DEAD_LETTER_MOVE_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug, Clone)]
pub struct SqsConfig {
    /// Prefix of the queue names of a deployment: 1 to 24 letters, digits and dashes.
    pub prefix: String,
    /// Queues with known URLs, for clients without permission to look them up.
    pub known: Vec<(QueueName, String)>,
}

impl SqsConfig {
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), known: Vec::new() }
    }

    #[must_use]
    pub fn with_known_url(mut self, queue: QueueName, url: impl Into<String>) -> Self {
        self.known.push((queue, url.into()));
        self
    }
}

/// Clones share the same broker.
#[derive(Clone)]
pub struct SqsBroker {
    client: Client,
    names: Names,
    addresses: Arc<Addresses>,
}

impl SqsBroker {
    /// Accesses the queues of a deployment. The client configures region, credentials, retries, timeouts and a dated behavior
    /// version. Polls use a separate timeout.
    pub fn new(client: Client, config: SqsConfig) -> Result<Self, InvalidPrefix> {
        let names = Names::new(config.prefix)?;
        let known = config.known.into_iter().filter_map(|(queue, url)| Some((names.of(&queue).ok()?, url)));
        let addresses = Arc::new(Addresses::new(client.clone(), known));
        Ok(Self { client, names, addresses })
    }

    pub async fn url(&self, queue: &QueueName) -> Result<Arc<str>, QueueError> {
        self.addresses.get(&self.names.of(queue)?).await?.ok_or_else(|| errors::no_such_queue(queue))
    }

    /// URL of a queue's dead-letter queue; `None` if it does not exist.
    async fn dead_letter_url(&self, queue: &QueueName) -> Result<Option<Arc<str>>, QueueError> {
        self.addresses.get(&self.names.dead(queue)?).await
    }

    /// Translates the error of a request. Forgets the URL of a missing queue.
    fn failed<E: errors::Failure>(&self, queue: &QueueName, error: E) -> QueueError {
        let error = errors::of(queue, error);
        if matches!(error, QueueError::NoSuchQueue(_)) {
            for name in [self.names.of(queue), self.names.dead(queue)].into_iter().flatten() {
                self.addresses.forget(&name);
            }
        }
        error
    }

    async fn create_dead_letter_queue(&self, queue: &QueueName) -> Result<Arc<str>, QueueError> {
        let name = self.names.dead(queue)?;
        if let Some(url) = self.addresses.get(&name).await? {
            return Ok(url);
        }
        let kept = DEAD_LETTER_RETENTION.as_secs().to_string();
        let mut attributes = HashMap::from([(QueueAttributeName::MessageRetentionPeriod, kept)]);
        if queue.is_fifo() {
            attributes.insert(QueueAttributeName::FifoQueue, "true".to_owned());
        }
        let created =
            self.client.create_queue().queue_name(&name).set_attributes(Some(attributes)).send().await;
        match created {
            Ok(output) => self.addresses.remember(name, output.queue_url),
            // Another client created it with other attributes; use that one.
            Err(error) if errors::exists(&error) => {
                self.addresses.get(&name).await?.ok_or_else(|| errors::no_such_queue(queue))
            }
            Err(error) => Err(self.failed(queue, error)),
        }
    }

    async fn attribute(
        &self,
        queue: &QueueName,
        url: &str,
        names: &[QueueAttributeName],
    ) -> Result<HashMap<QueueAttributeName, String>, QueueError> {
        let output = self
            .client
            .get_queue_attributes()
            .queue_url(url)
            .set_attribute_names(Some(names.to_vec()))
            .send()
            .await
            .map_err(|error| self.failed(queue, error))?;
        Ok(output.attributes.unwrap_or_default())
    }

    async fn depth_of(&self, queue: &QueueName, url: &str) -> Result<Depth, QueueError> {
        let (visible, hidden) = (
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        );
        let numbers = self.attribute(queue, url, &[visible.clone(), hidden.clone()]).await?;
        let number = |name| numbers.get(&name).and_then(|n| n.parse().ok()).unwrap_or(0);
        Ok(Depth { visible: number(visible), in_flight: number(hidden) })
    }

    async fn poll(
        &self,
        queue: &QueueName,
        url: &str,
        max: usize,
        wait: Duration,
        hidden: Option<Duration>,
    ) -> Result<Vec<aws_sdk_sqs::types::Message>, QueueError> {
        let wait = seconds(wait);
        let patience = Duration::from_secs(wait.unsigned_abs().into()) + POLL_GRACE;
        let timeouts =
            TimeoutConfig::builder().operation_attempt_timeout(patience).read_timeout(patience).build();
        let output = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(i32::MAX))
            .wait_time_seconds(wait)
            .set_visibility_timeout(hidden.map(seconds))
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_system_attribute_names(MessageSystemAttributeName::MessageGroupId)
            .message_attribute_names("All")
            .customize()
            .config_override(aws_sdk_sqs::config::Builder::new().timeout_config(timeouts))
            .send()
            .await
            .map_err(|error| self.failed(queue, error))?;
        Ok(output.messages.unwrap_or_default())
    }

    /// Sends entries that fit into one request. Returns failures by position.
    async fn send_batch(
        &self,
        queue: &QueueName,
        url: &str,
        messages: &[(usize, OutgoingMessage)],
    ) -> Result<Vec<(usize, QueueError)>, QueueError> {
        let entries = messages
            .iter()
            .map(|(position, message)| messages::entry(queue, *position, message))
            .collect::<Result<_, _>>()?;
        let output = self
            .client
            .send_message_batch()
            .queue_url(url)
            .set_entries(Some(entries))
            .send()
            .await
            .map_err(|error| self.failed(queue, error))?;
        Ok(output
            .failed
            .iter()
            .filter_map(|entry| Some((entry.id.parse().ok()?, errors::entry(entry))))
            .collect())
    }

    async fn delete_from(
        &self,
        queue: &QueueName,
        url: &str,
        receipts: &[Receipt],
    ) -> Result<(), QueueError> {
        for batch in receipts.chunks(MAX_BATCH) {
            let entries =
                batch.iter().enumerate().filter(|(_, receipt)| !receipt.0.is_empty()).map(|(n, receipt)| {
                    DeleteMessageBatchRequestEntry::builder()
                        .id(n.to_string())
                        .receipt_handle(&receipt.0)
                        .build()
                });
            let entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(errors::built)?;
            if entries.is_empty() {
                continue;
            }
            let output = self
                .client
                .delete_message_batch()
                .queue_url(url)
                .set_entries(Some(entries))
                .send()
                .await
                .map_err(|error| self.failed(queue, error))?;
            errors::unless_stale(&output.failed)?;
        }
        Ok(())
    }

    async fn change_visibility(
        &self,
        queue: &QueueName,
        url: &str,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError> {
        let timeout = seconds(delay.min(MAX_VISIBILITY));
        for batch in receipts.chunks(MAX_BATCH) {
            let entries =
                batch.iter().enumerate().filter(|(_, receipt)| !receipt.0.is_empty()).map(|(n, receipt)| {
                    ChangeMessageVisibilityBatchRequestEntry::builder()
                        .id(n.to_string())
                        .receipt_handle(&receipt.0)
                        .visibility_timeout(timeout)
                        .build()
                });
            let entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(errors::built)?;
            if entries.is_empty() {
                continue;
            }
            let output = self
                .client
                .change_message_visibility_batch()
                .queue_url(url)
                .set_entries(Some(entries))
                .send()
                .await
                .map_err(|error| self.failed(queue, error))?;
            errors::unless_stale(&output.failed)?;
        }
        Ok(())
    }
}

#[async_trait]
impl Broker for SqsBroker {
    /// Removing the limit of receives from an existing queue has no effect until its attributes are set in another way.
    async fn create(&self, queue: &QueueName, options: QueueOptions) -> Result<(), QueueError> {
        let name = self.names.of(queue)?;
        let visibility = seconds(options.visibility.min(MAX_VISIBILITY)).to_string();
        let mut changeable = HashMap::from([(QueueAttributeName::VisibilityTimeout, visibility)]);
        if let Some(max) = options.max_receives {
            let dead = self.create_dead_letter_queue(queue).await?;
            let arn = self.attribute(queue, &dead, &[QueueAttributeName::QueueArn]).await?;
            let arn = arn.get(&QueueAttributeName::QueueArn).map(String::as_str).unwrap_or_default();
            let policy = serde_json::json!({ "deadLetterTargetArn": arn, "maxReceiveCount": max });
            changeable.insert(QueueAttributeName::RedrivePolicy, policy.to_string());
        }
        let mut attributes = changeable.clone();
        if queue.is_fifo() {
            attributes.insert(QueueAttributeName::FifoQueue, "true".to_owned());
        }
        let created =
            self.client.create_queue().queue_name(&name).set_attributes(Some(attributes)).send().await;
        match created {
            Ok(output) => self.addresses.remember(name, output.queue_url).map(drop),
            // The queue exists with other options.
            Err(error) if errors::exists(&error) => {
                let url = self.url(queue).await?;
                self.client
                    .set_queue_attributes()
                    .queue_url(&*url)
                    .set_attributes(Some(changeable))
                    .send()
                    .await
                    .map(drop)
                    .map_err(|error| self.failed(queue, error))
            }
            Err(error) => Err(self.failed(queue, error)),
        }
    }

    async fn remove(&self, queue: &QueueName) -> Result<(), QueueError> {
        for name in [self.names.of(queue)?, self.names.dead(queue)?] {
            let Some(url) = self.addresses.get(&name).await? else { continue };
            let deleted = self.client.delete_queue().queue_url(&*url).send().await;
            self.addresses.forget(&name);
            match deleted.map_err(|error| errors::of(queue, error)) {
                Ok(_) | Err(QueueError::NoSuchQueue(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn list(&self, prefix: &str) -> Result<Vec<QueueName>, QueueError> {
        let mut pages = self
            .client
            .list_queues()
            .queue_name_prefix(self.names.physical(prefix))
            .max_results(1000)
            .into_paginator()
            .items()
            .send();
        let mut names = BTreeSet::new();
        while let Some(url) = pages.next().await {
            let url = url.map_err(|error| QueueError::Engine(Box::new(error)))?;
            names.extend(url.rsplit('/').next().and_then(|name| self.names.logical(name)));
        }
        Ok(names.into_iter().collect())
    }

    async fn send(
        &self,
        queue: &QueueName,
        messages: Vec<OutgoingMessage>,
    ) -> Result<SendOutcome, QueueError> {
        if messages.len() > MAX_BATCH {
            return Err(QueueError::Invalid(format!(
                "{} messages; the limit is {MAX_BATCH}",
                messages.len()
            )));
        }
        let url = self.url(queue).await?;
        let mut outcome = SendOutcome::default();
        let mut accepted = Vec::with_capacity(messages.len());
        for (position, message) in messages.into_iter().enumerate() {
            match message.check(queue).and_then(|()| messages::sendable(message)) {
                Ok(message) => accepted.push((position, message)),
                Err(error) => outcome.failed.push((position, error)),
            }
        }
        // Do not send the messages of a group after a failure: they would overtake the retry.
        let mut held: BTreeSet<String> = BTreeSet::new();
        let mut sent = false;
        for mut together in messages::requests(accepted) {
            together.retain(|(position, message)| {
                let free = !held.contains(&message.group);
                if !free {
                    outcome.failed.push((*position, errors::held()));
                }
                free
            });
            if together.is_empty() {
                continue;
            }
            match self.send_batch(queue, &url, &together).await {
                Ok(failed) => {
                    let groups =
                        together.iter().filter(|(at, _)| failed.iter().any(|(position, _)| position == at));
                    held.extend(groups.map(|(_, message)| message.group.clone()));
                    outcome.failed.extend(failed);
                    sent = true;
                }
                // Nothing was sent yet, so the request failed as a whole.
                Err(error) if !sent => return Err(error),
                Err(error) => {
                    tracing::warn!(queue = queue.as_str(), %error, "failed to send a part of a batch");
                    for (position, message) in together {
                        held.insert(message.group);
                        outcome.failed.push((position, errors::held()));
                    }
                }
            }
        }
        outcome.failed.sort_by_key(|(position, _)| *position);
        Ok(outcome)
    }

    /// SQS waits for whole seconds; shorter waits are rounded up.
    async fn receive(
        &self,
        queue: &QueueName,
        max: usize,
        wait: Duration,
    ) -> Result<Vec<Received>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) || wait > MAX_WAIT {
            return Err(QueueError::Invalid(
                "a receive returns 1 to 10 messages and waits up to 20 s".to_owned(),
            ));
        }
        let url = self.url(queue).await?;
        let messages = self.poll(queue, &url, max, wait, None).await?;
        Ok(messages.into_iter().filter_map(messages::received).collect())
    }

    async fn delete(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        let url = self.url(queue).await?;
        self.delete_from(queue, &url, receipts).await
    }

    /// SQS supports whole seconds; delays are rounded up.
    async fn release(
        &self,
        queue: &QueueName,
        receipts: &[Receipt],
        delay: Duration,
    ) -> Result<(), QueueError> {
        let url = self.url(queue).await?;
        self.change_visibility(queue, &url, receipts, delay).await
    }

    /// Sends before deleting. After a crash in between there are two dead letters, and a redrive is idempotent.
    async fn dead_letter(
        &self,
        queue: &QueueName,
        message: &Received,
        cause: &str,
    ) -> Result<(), QueueError> {
        let url = self.url(queue).await?;
        let held = self
            .client
            .change_message_visibility()
            .queue_url(&*url)
            .receipt_handle(&message.receipt.0)
            .visibility_timeout(seconds(DEAD_LETTER_MOVE_TIMEOUT))
            .send()
            .await;
        if let Err(error) = held {
            return if errors::is_stale(&error) { Ok(()) } else { Err(self.failed(queue, error)) };
        }
        let dead = self.create_dead_letter_queue(queue).await?;
        self.client
            .send_message()
            .queue_url(&*dead)
            .set_message_group_id(queue.is_fifo().then(|| message.group.clone()))
            // Deduplicates repeated requests for the same receive of a message.
            .set_message_deduplication_id(queue.is_fifo().then(|| messages::digest(&message.receipt.0)))
            .message_body(&message.body)
            .message_attributes(CAUSE, messages::text(&messages::printable(cause))?)
            .message_attributes(RECEIVES, messages::number(message.receive_count)?)
            .send()
            .await
            .map_err(|error| self.failed(queue, error))?;
        self.delete_from(queue, &url, std::slice::from_ref(&message.receipt)).await
    }

    async fn receive_dead_letters(
        &self,
        queue: &QueueName,
        max: usize,
    ) -> Result<Vec<DeadLetter>, QueueError> {
        if !(1..=MAX_BATCH).contains(&max) {
            return Err(QueueError::Invalid("a receive returns 1 to 10 dead letters".to_owned()));
        }
        let Some(dead) = self.dead_letter_url(queue).await? else {
            return self.url(queue).await.map(|_| Vec::new());
        };
        // A poll that waits queries all SQS servers; one that does not may miss messages.
        let wait = Duration::from_secs(1);
        let messages = self.poll(queue, &dead, max, wait, Some(DEAD_LETTER_VISIBILITY_TIMEOUT)).await?;
        Ok(messages.into_iter().filter_map(messages::dead_letter).collect())
    }

    async fn release_dead_letters(&self, queue: &QueueName, receipts: &[Receipt]) -> Result<(), QueueError> {
        match self.dead_letter_url(queue).await? {
            Some(dead) => self.change_visibility(queue, &dead, receipts, Duration::ZERO).await,
            None => self.url(queue).await.map(drop),
        }
    }

    async fn forget(&self, queue: &QueueName, receipt: &Receipt) -> Result<(), QueueError> {
        match self.dead_letter_url(queue).await? {
            Some(dead) => self.delete_from(queue, &dead, std::slice::from_ref(receipt)).await,
            None => self.url(queue).await.map(drop),
        }
    }

    async fn dead_letter_depth(&self, queue: &QueueName) -> Result<u64, QueueError> {
        let Some(dead) = self.dead_letter_url(queue).await? else {
            return self.url(queue).await.map(|_| 0);
        };
        let depth = self.depth_of(queue, &dead).await?;
        Ok(depth.visible + depth.in_flight)
    }

    async fn depth(&self, queue: &QueueName) -> Result<Depth, QueueError> {
        let url = self.url(queue).await?;
        self.depth_of(queue, &url).await
    }
}

fn seconds(duration: Duration) -> i32 {
    let up = u64::from(duration.subsec_nanos() > 0);
    i32::try_from(duration.as_secs() + up).unwrap_or(i32::MAX)
}
