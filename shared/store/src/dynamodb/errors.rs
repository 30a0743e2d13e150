//! Translates DynamoDB errors to errors of the port.

use std::error::Error;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::CancellationReason;

use crate::table::TableError;

pub(super) fn engine<E>(error: E) -> TableError
where
    E: Error + Send + Sync + MaybeMetadata + 'static,
{
    match error.error_code() {
        Some(
            "TransactionConflictException"
            | "TransactionInProgressException"
            | "ReplicatedWriteConflictException",
        ) => TableError::Contended,
        Some(
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "LimitExceededException",
        ) => TableError::Throttled,
        Some("ValidationException" | "ItemCollectionSizeLimitExceededException") => {
            TableError::Invalid(error.error_text().unwrap_or("refused by DynamoDB").to_owned())
        }
        _ => TableError::Engine(Box::new(error)),
    }
}

pub(super) fn single<E>(error: E) -> TableError
where
    E: Error + Send + Sync + MaybeMetadata + 'static,
{
    if error.error_code() == Some("ConditionalCheckFailedException") {
        return TableError::ConditionFailed { writes: vec![0] };
    }
    engine(error)
}

/// Errors of a transaction. `positions` are those of its writes in the request of the caller.
pub(super) fn transaction(error: SdkError<TransactWriteItemsError>, positions: &[usize]) -> TableError {
    if let Some(TransactWriteItemsError::TransactionCanceledException(canceled)) = error.as_service_error()
        && let Some(known) = cancellation(canceled.cancellation_reasons(), positions)
    {
        return known;
    }
    engine(error)
}

/// Reasons are in the order of the writes. A failed condition takes precedence over all other reasons.
fn cancellation(reasons: &[CancellationReason], positions: &[usize]) -> Option<TableError> {
    let with = |code: &'static str| reasons.iter().filter(move |reason| reason.code() == Some(code));
    let failed: Vec<usize> = reasons
        .iter()
        .zip(positions)
        .filter(|(reason, _)| reason.code() == Some("ConditionalCheckFailed"))
        .map(|(_, position)| *position)
        .collect();
    if !failed.is_empty() {
        return Some(TableError::ConditionFailed { writes: failed });
    }
    if let Some(reason) = with("ValidationError").chain(with("ItemCollectionSizeLimitExceeded")).next() {
        return Some(TableError::Invalid(reason.message().unwrap_or("refused by DynamoDB").to_owned()));
    }
    if with("TransactionConflict").next().is_some() {
        return Some(TableError::Contended);
    }
    with("ThrottlingError").chain(with("ProvisionedThroughputExceeded")).next().map(|_| TableError::Throttled)
}

/// Code and message of an error, if it came from the service.
pub(super) trait MaybeMetadata {
    fn error_code(&self) -> Option<&str>;
    fn error_text(&self) -> Option<&str>;
}

impl<E: ProvideErrorMetadata, R> MaybeMetadata for SdkError<E, R> {
    fn error_code(&self) -> Option<&str> {
        self.code()
    }
    fn error_text(&self) -> Option<&str> {
        self.message()
    }
}

impl MaybeMetadata for aws_sdk_dynamodb::error::BuildError {
    fn error_code(&self) -> Option<&str> {
        None
    }
    fn error_text(&self) -> Option<&str> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(codes: &[&str]) -> Vec<CancellationReason> {
        codes.iter().map(|code| CancellationReason::builder().code(*code).build()).collect()
    }

    #[test]
    fn cancellation_reasons_become_table_errors() {
        let of = |codes: &[&str]| cancellation(&reasons(codes), &[0, 2, 5]);
        let failed = of(&["None", "ConditionalCheckFailed", "TransactionConflict"]);
        assert!(matches!(failed, Some(TableError::ConditionFailed { writes }) if writes == [2]));
        assert!(matches!(of(&["None", "TransactionConflict"]), Some(TableError::Contended)));
        assert!(matches!(of(&["ThrottlingError"]), Some(TableError::Throttled)));
        assert!(matches!(
            of(&["None", "None", "ProvisionedThroughputExceeded"]),
            Some(TableError::Throttled)
        ));
        assert!(matches!(of(&["ValidationError", "TransactionConflict"]), Some(TableError::Invalid(_))));
        assert!(of(&["None", "SomethingNew"]).is_none());
    }
}
