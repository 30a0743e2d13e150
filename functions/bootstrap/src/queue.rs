//! Converts SQS batches to messages, and their outcome to `batchItemFailures`.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pilothouse_app::batch::BatchOutcome;
use pilothouse_broker::{Broker, QueueName, Receipt, Received, sqs};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;

#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(borrow, rename = "Records")]
    records: Vec<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    message_id: String,
    receipt_handle: String,
    body: String,
    attributes: Attributes,
    #[serde(default)]
    message_attributes: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Attributes {
    approximate_receive_count: String,
    #[serde(default)]
    message_group_id: Option<String>,
}

/// The readable part of a record that cannot be parsed completely.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Remains {
    message_id: String,
    #[serde(default)]
    attributes: Value,
}

#[derive(Debug)]
pub struct Batch {
    pub messages: Vec<Received>,
    ids: Vec<String>,
    by_receipt: HashMap<Receipt, String>,
    /// The ids of records that are retried without having been processed.
    unread: BTreeSet<String>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchResponse {
    /// The records to retry. All others are deleted.
    pub batch_item_failures: Vec<Item>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// The id of a message, or the sequence number of a stream's record.
    pub item_identifier: String,
}

impl Batch {
    /// Parses a batch. A record that cannot be parsed stays in its queue with its successors in the group, until its receive count
    /// makes it a dead letter.
    pub fn read(event: &str) -> Result<Self, Failure> {
        let wrong = |source| Failure::Event { expected: "batch of a queue", source };
        let event: Event<'_> = serde_json::from_str(event).map_err(wrong)?;
        let mut batch = Self {
            messages: Vec::with_capacity(event.records.len()),
            ids: Vec::with_capacity(event.records.len()),
            by_receipt: HashMap::with_capacity(event.records.len()),
            unread: BTreeSet::new(),
        };
        let mut stalled = BTreeSet::new();
        for raw in event.records {
            match serde_json::from_str::<Record>(raw.get()).and_then(|record| {
                let count =
                    record.attributes.approximate_receive_count.parse().map_err(serde::de::Error::custom)?;
                Ok((record, count))
            }) {
                Ok((record, receive_count)) => batch.take(record, receive_count, &stalled),
                Err(error) => {
                    let remains: Remains = serde_json::from_str(raw.get()).map_err(wrong)?;
                    let group = remains.attributes["MessageGroupId"].as_str();
                    tracing::error!(message = remains.message_id, group, %error, "failed to parse a record");
                    stalled.extend(group.map(str::to_owned));
                    batch.ids.push(remains.message_id.clone());
                    batch.unread.insert(remains.message_id);
                }
            }
        }
        Ok(batch)
    }

    fn take(&mut self, record: Record, receive_count: u32, stalled: &BTreeSet<String>) {
        let Record { message_id, receipt_handle, body, attributes, message_attributes } = record;
        self.ids.push(message_id.clone());
        if attributes.message_group_id.as_ref().is_some_and(|group| stalled.contains(group)) {
            self.unread.insert(message_id);
            return;
        }
        let receipt = Receipt(receipt_handle);
        self.messages.push(Received {
            receipt: receipt.clone(),
            // Messages of a queue without groups are independent.
            group: attributes.message_group_id.unwrap_or_else(|| message_id.clone()),
            body,
            receive_count,
            redriven: message_attributes.contains_key(sqs::REDRIVEN),
        });
        self.by_receipt.insert(receipt, message_id);
    }

    pub fn take_messages(&mut self) -> Vec<Received> {
        std::mem::take(&mut self.messages)
    }

    /// Releases failed messages after their pause, and returns the records that must not be deleted.
    pub async fn settle(
        self,
        broker: &dyn Broker,
        queue: &QueueName,
        outcome: BatchOutcome,
    ) -> BatchResponse {
        let mut failed = self.unread;
        for (receipts, pause) in outcome.retry {
            failed.extend(receipts.iter().filter_map(|receipt| self.by_receipt.get(receipt).cloned()));
            // Without the release, the message is retried when its visibility timeout ends, which is later.
            if let Err(error) = broker.release(queue, &receipts, pause).await {
                tracing::warn!(queue = queue.as_str(), %error, "failed to release messages");
            }
        }
        let failed = self.ids.into_iter().filter(|id| failed.contains(id));
        BatchResponse {
            batch_item_failures: failed.map(|item_identifier| Item { item_identifier }).collect(),
        }
    }
}
