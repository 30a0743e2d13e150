//! `GET /api/operations/dead-letters`: lists dead letters with their causes, and the latest redrives.

use axum::Json;
use axum::extract::State;
use pilothouse_api::operations::{DeadLetterView, DeadLettersView, DeadQueueView};
use pilothouse_app::App;
use pilothouse_app::function::requirements::DEAD_LETTERS;
use pilothouse_app::function::{HttpFunction, Verb};
use pilothouse_app::http::{Owner, Problem};
use pilothouse_app::record_views;
use pilothouse_broker::{DeadLetter, MAX_BATCH, QueueError, QueueName};
use pilothouse_domain::text::cut;
use serde::Deserialize;

use crate::dead_letters::{RELAY, check_operator, failed, queues, relay};

pub const FUNCTION: HttpFunction =
    HttpFunction::new("dead-letters-list", Verb::Get, "/api/operations/dead-letters", |verb| {
        verb.route(list_dead_letters)
    })
    .owner()
    .summary("List dead letters and recent redrives (operators only)")
    .output::<DeadLettersView>(&[200])
    .requires(DEAD_LETTERS);

/// The largest number of listed letters per queue.
const SHOWN: usize = 50;
/// The number of characters of a body that are shown.
const MAX_BODY_CHARS: usize = 500;
/// The number of redrives that are shown.
const REDRIVES: usize = 20;

/// Responds with 200 and the queues that have dead letters. A letter that another request has received is counted but not
/// listed. At most ten letters of a session are listed.
async fn list_dead_letters(
    State(app): State<App>,
    Owner(owner): Owner,
) -> Result<Json<DeadLettersView>, Problem> {
    check_operator(&app, &owner)?;
    let mut seen = Vec::new();
    for queue in queues().chain(relay()) {
        let count = match app.broker.dead_letter_depth(&queue).await {
            Ok(0) | Err(QueueError::NoSuchQueue(_)) => continue,
            Ok(count) => count,
            Err(error) => return Err(failed(error)),
        };
        let letters = peek(&app, &queue).await?;
        let show = if queue.as_str() == RELAY { relay_view } else { view };
        let letters = letters.iter().map(show).collect();
        seen.push(DeadQueueView { queue: queue.as_str().to_owned(), count, letters });
    }
    let redrives = app.store.redrives(REDRIVES).await?.into_iter().map(record_views::redrive).collect();
    Ok(Json(DeadLettersView { queues: seen, redrives }))
}

/// Receives letters and releases them again.
async fn peek(app: &App, queue: &QueueName) -> Result<Vec<DeadLetter>, Problem> {
    let mut letters: Vec<DeadLetter> = Vec::new();
    let mut outcome = Ok(());
    while letters.len() < SHOWN {
        match app.broker.receive_dead_letters(queue, MAX_BATCH).await {
            Ok(more) if more.is_empty() => break,
            Ok(more) => letters.extend(more),
            Err(error) => {
                outcome = Err(failed(error));
                break;
            }
        }
    }
    let receipts: Vec<_> = letters.iter().map(|letter| letter.receipt.clone()).collect();
    app.broker.release_dead_letters(queue, &receipts).await.map_err(failed)?;
    outcome.map(|()| letters)
}

/// The parts of Lambda's failure record for a batch of stream records that are shown.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamFailure {
    request_context: StreamFailureContext,
    #[serde(rename = "DDBStreamBatchInfo")]
    batch: StreamFailureBatch,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamFailureContext {
    condition: String,
    #[serde(default)]
    approximate_invoke_count: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StreamFailureBatch {
    batch_size: u32,
    approximate_arrival_of_first_record: String,
}

/// Shows a letter of the relay: the batch and why it was abandoned. A letter that cannot be parsed is shown like any other.
fn relay_view(letter: &DeadLetter) -> DeadLetterView {
    let mut shown = view(letter);
    if let Ok(StreamFailure { request_context, batch }) = serde_json::from_str(&letter.body) {
        shown.receive_count = request_context.approximate_invoke_count;
        shown.cause = format!(
            "failed to relay {} records of the table's stream, from {} on: {}",
            batch.batch_size, batch.approximate_arrival_of_first_record, request_context.condition
        );
    }
    shown
}

fn view(letter: &DeadLetter) -> DeadLetterView {
    DeadLetterView {
        id: letter.id.clone(),
        group: letter.group.clone(),
        cause: letter.cause.clone(),
        receive_count: letter.receive_count,
        bytes: letter.body.len() as u64,
        head: cut(&letter.body, MAX_BODY_CHARS),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn batch_that_the_relay_abandoned_has_a_reason() {
        let body = r#"{"requestContext":{"requestId":"316aa6d0","functionArn":"arn:aws:lambda:x:1:function:p-relay",
            "condition":"RetryAttemptsExhausted","approximateInvokeCount":3},
            "responseContext":{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"},
            "version":"1.0","timestamp":"2019-11-14T00:13:49.717Z","DDBStreamBatchInfo":{"shardId":"shardId-1",
            "startSequenceNumber":"8","endSequenceNumber":"9","approximateArrivalOfFirstRecord":"2019-11-14T00:13:19Z",
            "approximateArrivalOfLastRecord":"2019-11-14T00:13:19Z","batchSize":2,"streamArn":"arn"}}"#;
        let letter = relay_view(&DeadLetter {
            id: "1".to_owned(),
            receipt: pilothouse_broker::Receipt("receipt".to_owned()),
            group: String::new(),
            body: body.to_owned(),
            cause: "received too often and never deleted".to_owned(),
            receive_count: 0,
        });
        assert_eq!(letter.receive_count, 3);
        assert!(
            letter.cause.contains("2 records") && letter.cause.ends_with("RetryAttemptsExhausted"),
            "{}",
            letter.cause
        );
    }
}
