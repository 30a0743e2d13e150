//! Translates SQS errors to errors of the port.

use std::error::Error;

use aws_sdk_sqs::error::{BuildError, ProvideErrorMetadata};
use aws_sdk_sqs::types::BatchResultErrorEntry;

use crate::queue::{QueueError, QueueName};

#[derive(Debug, thiserror::Error)]
#[error("{code}: {message}")]
struct BatchEntryError {
    code: String,
    message: String,
}

/// A batch entry that was not sent.
#[derive(Debug, thiserror::Error)]
#[error("an earlier part of the batch was not sent")]
struct GroupInFlight;

pub(super) trait Failure: ProvideErrorMetadata + Error + Send + Sync + 'static {}
impl<E: ProvideErrorMetadata + Error + Send + Sync + 'static> Failure for E {}

pub(super) fn no_such_queue(queue: &QueueName) -> QueueError {
    QueueError::NoSuchQueue(queue.as_str().to_owned())
}

/// Whether the queue does not exist. The second code belongs to SQS's older protocol and is still in use.
pub(super) fn is_missing<E: ProvideErrorMetadata>(error: &E) -> bool {
    matches!(error.code(), Some("QueueDoesNotExist" | "AWS.SimpleQueueService.NonExistentQueue"))
}

/// Whether a queue of this name exists with other attributes.
pub(super) fn exists<E: ProvideErrorMetadata>(error: &E) -> bool {
    matches!(error.code(), Some("QueueNameExists" | "QueueAlreadyExists"))
}

/// Whether a receipt is not the latest of a message. SQS reports an expired one as an invalid parameter.
fn stale(code: &str, message: &str) -> bool {
    match code {
        "ReceiptHandleIsInvalid"
        | "MessageNotInflight"
        | "InvalidIdFormat"
        | "AWS.SimpleQueueService.MessageNotInflight" => true,
        "InvalidParameterValue" | "InvalidParameterValueException" => {
            message.to_lowercase().replace(' ', "").contains("receipthandle")
        }
        _ => false,
    }
}

pub(super) fn is_stale<E: ProvideErrorMetadata>(error: &E) -> bool {
    stale(error.code().unwrap_or_default(), error.message().unwrap_or_default())
}

pub(super) fn of<E: Failure>(queue: &QueueName, error: E) -> QueueError {
    if is_missing(&error) {
        return no_such_queue(queue);
    }
    match error.code() {
        Some(
            "InvalidMessageContents"
            | "InvalidParameterValue"
            | "InvalidParameterValueException"
            | "InvalidAttributeValue"
            | "BatchRequestTooLong"
            | "TooManyEntriesInBatchRequest",
        ) => QueueError::Invalid(error.message().unwrap_or("refused by SQS").to_owned()),
        _ => QueueError::Engine(Box::new(error)),
    }
}

pub(super) fn entry(entry: &BatchResultErrorEntry) -> QueueError {
    let message = entry.message().unwrap_or_default().to_owned();
    if entry.sender_fault() {
        return QueueError::Invalid(format!("{}: {message}", entry.code()));
    }
    QueueError::Engine(Box::new(BatchEntryError { code: entry.code().to_owned(), message }))
}

/// The first failure of a batch that is not due to a stale receipt.
pub(super) fn unless_stale(failed: &[BatchResultErrorEntry]) -> Result<(), QueueError> {
    match failed.iter().find(|e| !stale(e.code(), e.message().unwrap_or_default())) {
        Some(failed) => Err(entry(failed)),
        None => Ok(()),
    }
}

pub(super) fn held() -> QueueError {
    QueueError::Engine(Box::new(GroupInFlight))
}

pub(super) fn built(error: BuildError) -> QueueError {
    QueueError::Engine(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: &str, message: &str, sender_fault: bool) -> BatchResultErrorEntry {
        let entry = BatchResultErrorEntry::builder().id("0").code(code).message(message);
        entry.sender_fault(sender_fault).build().unwrap()
    }

    #[test]
    fn stale_receipts_are_ignored_and_other_errors_are_failures() {
        let expired =
            "Value AQEB for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.";
        let stale = [
            failed("ReceiptHandleIsInvalid", "The input receipt handle is invalid.", true),
            failed("InvalidParameterValue", expired, true),
            failed("MessageNotInflight", "", true),
        ];
        assert!(unless_stale(&stale).is_ok());
        let broken = failed("InternalError", "try again", false);
        assert!(matches!(unless_stale(&[stale[0].clone(), broken]), Err(QueueError::Engine(_))));
        let wrong = failed("InvalidParameterValue", "VisibilityTimeout is invalid", true);
        assert!(matches!(unless_stale(&[wrong]), Err(QueueError::Invalid(_))));
    }
}
