//! The stream of the table.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pilothouse_bootstrap::dispatch::Answer;
use pilothouse_functions::queues;
use pilothouse_store::table::Item;
use serde_json::{Value, json};

use crate::ground::{Stage, answer, fixture};

/// An item as the stream tells it.
pub(crate) fn image(item: &Item) -> Value {
    let mut image = json!({
        "pk": { "S": item.key.partition },
        "sk": { "S": item.key.sort },
        "k": { "S": item.kind },
        "v": { "N": item.version.to_string() },
    });
    image["b"] = json!({ "S": item.body });
    if let Some(due) = &item.due {
        image["d1p"] = json!({ "S": due.partition });
        image["d1s"] = json!({ "S": due.sort });
    }
    image
}

pub(crate) fn record(number: usize, image: Value) -> Value {
    let mut record = fixture("dynamodb-stream")["Records"][0].clone();
    record["dynamodb"]["NewImage"] = image;
    record["dynamodb"]["SequenceNumber"] = number.to_string().into();
    record
}

/// The journal entries of a session that was just started.
async fn entries(stage: &Stage) -> Vec<Item> {
    let mut event = fixture("http");
    event["rawQueryString"] = "".into();
    event["requestContext"]["http"]["method"] = "POST".into();
    event["headers"]["content-type"] = "application/json".into();
    event["body"] = r#"{"objective":"Do it","workingDirectory":"/w","budgetCapUsd":"1"}"#.into();
    let started = answer(&stage.function("sessions-start"), &event).await;
    assert_eq!(started["statusCode"], 201, "{started}");
    stage.ground.table.feed(0, 100).await.unwrap().into_iter().map(|(_, item)| item).collect()
}

/// A message of the reactions queue for an entry that is there.
pub(crate) async fn entry_that_reacts(stage: &Stage) -> String {
    let items = entries(stage).await;
    let mut messages = items
        .iter()
        .filter_map(|item| pilothouse_functions::relay::follows(item, stage.app.now()).unwrap().reaction);
    messages.next().unwrap().body
}

#[tokio::test]
async fn entries_that_something_follows_from_are_handed_to_the_reactions() {
    let stage = Stage::new().await;
    let items = entries(&stage).await;
    let records: Vec<_> = items.iter().enumerate().map(|(n, item)| record(n, image(item))).collect();
    let answered = answer(&stage.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(answered["batchItemFailures"], json!([]));
    let received = stage.app.broker.receive(&queues::reactions(), 10, Duration::ZERO).await.unwrap();
    assert!(!received.is_empty());
    let again = answer(&stage.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(again["batchItemFailures"], json!([]));
    let repeats = stage.app.broker.depth(&queues::reactions()).await.unwrap();
    assert_eq!(repeats.visible, 0, "the queue knows them");
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_left_out_and_the_others_are_not() {
    let stage = Stage::new().await;
    let items = entries(&stage).await;
    let mut damaged = image(&items[0]);
    damaged["b"] = json!({ "S": "{" });
    let packed = json!({ "pk": { "S": "S#x" }, "z": { "B": BASE64.encode("no deflate") } });
    let mut records =
        vec![record(1, damaged), record(2, packed), record(3, json!({ "pk": { "BOOL": true } }))];
    records.extend(items.iter().enumerate().map(|(n, item)| record(n + 4, image(item))));
    let answered = answer(&stage.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(answered["batchItemFailures"], json!([]));
    assert!(stage.app.broker.depth(&queues::reactions()).await.unwrap().visible > 0);
}

#[tokio::test]
async fn what_is_neither_entry_nor_session_concerns_nobody() {
    let stage = Stage::new().await;
    let answered = stage.function("relay").run(&fixture("dynamodb-stream").to_string()).await.unwrap();
    assert!(matches!(answered, Answer::Batch(batch) if batch.batch_item_failures.is_empty()));
}

#[tokio::test]
async fn the_stream_comes_again_from_the_first_record_that_could_not_be_handed_on() {
    let stage = Stage::new().await;
    let items = entries(&stage).await;
    let reacting = items.iter().position(|item| {
        pilothouse_functions::relay::follows(item, stage.app.now()).unwrap().reaction.is_some()
    });
    stage.app.broker.remove(&queues::reactions()).await.unwrap();
    let records: Vec<_> = items.iter().enumerate().map(|(n, item)| record(n + 100, image(item))).collect();
    let answered = answer(&stage.function("relay"), &json!({ "Records": records })).await;
    let first = (reacting.unwrap() + 100).to_string();
    assert_eq!(answered["batchItemFailures"], json!([{ "itemIdentifier": first }]));
}
