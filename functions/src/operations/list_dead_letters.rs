//! `GET /api/operations/dead-letters`: messages that nobody could deal with, with their causes, and the latest redrives.

use axum::Json;
use axum::extract::State;
use pilothouse_broker::{DeadLetter, MAX_BATCH, QueueError, QueueName};
use pilothouse_domain::text::cut;
use serde::Deserialize;

use super::{RELAY, check_operator, failed, queues, relay};
use crate::api::operations::{DeadLetterView, DeadLettersView, DeadQueueView};
use crate::app::App;
use crate::edge::{Owner, Problem};

/// How many letters of a queue are shown.
const SHOWN: usize = 50;
/// How much of a letter is shown, in characters.
const HEAD: usize = 500;
/// How many redrives are shown.
const REDRIVES: usize = 20;

/// 200 with the queues that have any. Letters that somebody else has at this moment are counted and not shown; of a
/// session, ten are shown at most.
pub async fn handle(State(app): State<App>, Owner(owner): Owner) -> Result<Json<DeadLettersView>, Problem> {
    check_operator(&app, &owner)?;
    let mut seen = Vec::new();
    for queue in queues().chain(relay()) {
        let count = match app.broker.dead_depth(&queue).await {
            Ok(0) | Err(QueueError::NoSuchQueue(_)) => continue,
            Ok(count) => count,
            Err(error) => return Err(failed(error)),
        };
        let letters = peek(&app, &queue).await?;
        let show = if queue.as_str() == RELAY { of_relay } else { view };
        let letters = letters.iter().map(show).collect();
        seen.push(DeadQueueView { queue: queue.as_str().to_owned(), count, letters });
    }
    let redrives = app.store.redrives(REDRIVES).await?.into_iter().map(Into::into).collect();
    Ok(Json(DeadLettersView { queues: seen, redrives }))
}

/// Looks at letters and lays them back.
async fn peek(app: &App, queue: &QueueName) -> Result<Vec<DeadLetter>, Problem> {
    let mut letters: Vec<DeadLetter> = Vec::new();
    let mut outcome = Ok(());
    while letters.len() < SHOWN {
        match app.broker.receive_dead(queue, MAX_BATCH).await {
            Ok(more) if more.is_empty() => break,
            Ok(more) => letters.extend(more),
            Err(error) => {
                outcome = Err(failed(error));
                break;
            }
        }
    }
    let receipts: Vec<_> = letters.iter().map(|letter| letter.receipt.clone()).collect();
    app.broker.show_dead(queue, &receipts).await.map_err(failed)?;
    outcome.map(|()| letters)
}

/// Lambda's own words of a batch of the stream that was given up, as far as they are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenUp {
    request_context: GivenUpContext,
    #[serde(rename = "DDBStreamBatchInfo")]
    batch: GivenUpBatch,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenUpContext {
    condition: String,
    #[serde(default)]
    approximate_invoke_count: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenUpBatch {
    batch_size: u32,
    approximate_arrival_of_first_record: String,
}

/// A letter of the relay: the batch and why it was given up. One that cannot be read is shown like any other.
fn of_relay(letter: &DeadLetter) -> DeadLetterView {
    let mut shown = view(letter);
    if let Ok(GivenUp { request_context, batch }) = serde_json::from_str(&letter.body) {
        shown.receive_count = request_context.approximate_invoke_count;
        shown.cause = format!(
            "{} records of the table's stream, from {} on, were not handed on: {}",
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
        head: cut(&letter.body, HEAD),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_the_relay_gave_up_says_why() {
        let body = r#"{"requestContext":{"requestId":"316aa6d0","functionArn":"arn:aws:lambda:x:1:function:p-relay",
            "condition":"RetryAttemptsExhausted","approximateInvokeCount":3},
            "responseContext":{"statusCode":200,"executedVersion":"$LATEST","functionError":"Unhandled"},
            "version":"1.0","timestamp":"2019-11-14T00:13:49.717Z","DDBStreamBatchInfo":{"shardId":"shardId-1",
            "startSequenceNumber":"8","endSequenceNumber":"9","approximateArrivalOfFirstRecord":"2019-11-14T00:13:19Z",
            "approximateArrivalOfLastRecord":"2019-11-14T00:13:19Z","batchSize":2,"streamArn":"arn"}}"#;
        let letter = of_relay(&DeadLetter {
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
