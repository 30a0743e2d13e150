use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pilothouse_app::queues;
use pilothouse_bootstrap::dispatch::LambdaResponse;
use pilothouse_store::table::Item;
use serde_json::{Value, json};

use crate::bootstrap_fixture::{BootstrapFixture, fixture, invoke};

/// An item as the stream contains it.
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
async fn entries(host: &BootstrapFixture) -> Vec<Item> {
    let mut event = fixture("http");
    event["rawQueryString"] = "".into();
    event["requestContext"]["http"]["method"] = "POST".into();
    event["headers"]["content-type"] = "application/json".into();
    event["body"] = r#"{"objective":"Do it","workingDirectory":"/w","budgetCapUsd":"1"}"#.into();
    let started = invoke(&host.function("sessions-start"), &event).await;
    assert_eq!(started["statusCode"], 201, "{started}");
    host.engines.table.feed(0, 100).await.unwrap().into_iter().map(|(_, item)| item).collect()
}

/// A message of the reactions queue for an existing entry.
pub(crate) async fn entry_that_reacts(host: &BootstrapFixture) -> String {
    let items = entries(host).await;
    let mut messages = items.iter().filter_map(|item| {
        pilothouse_functions::events::relay::messages_for(item, host.app.now()).unwrap().reaction
    });
    messages.next().unwrap().body
}

#[tokio::test]
async fn entries_with_effects_are_sent_to_the_reactions() {
    let host = BootstrapFixture::new().await;
    let items = entries(&host).await;
    let records: Vec<_> = items.iter().enumerate().map(|(n, item)| record(n, image(item))).collect();
    let response = invoke(&host.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(response["batchItemFailures"], json!([]));
    let received = host.app.broker.receive(&queues::reactions(), 10, Duration::ZERO).await.unwrap();
    assert!(!received.is_empty());
    let again = invoke(&host.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(again["batchItemFailures"], json!([]));
    let repeats = host.app.broker.depth(&queues::reactions()).await.unwrap();
    assert_eq!(repeats.visible, 0, "the queue knows them");
}

#[tokio::test]
async fn unreadable_record_is_skipped_alone() {
    let host = BootstrapFixture::new().await;
    let items = entries(&host).await;
    let mut damaged = image(&items[0]);
    damaged["b"] = json!({ "S": "{" });
    let packed = json!({ "pk": { "S": "S#x" }, "z": { "B": BASE64.encode("no deflate") } });
    let mut records =
        vec![record(1, damaged), record(2, packed), record(3, json!({ "pk": { "BOOL": true } }))];
    records.extend(items.iter().enumerate().map(|(n, item)| record(n + 4, image(item))));
    let response = invoke(&host.function("relay"), &json!({ "Records": records })).await;
    assert_eq!(response["batchItemFailures"], json!([]));
    assert!(host.app.broker.depth(&queues::reactions()).await.unwrap().visible > 0);
}

#[tokio::test]
async fn unrelated_records_are_ignored() {
    let host = BootstrapFixture::new().await;
    let response = host.function("relay").run(&fixture("dynamodb-stream").to_string()).await.unwrap();
    assert!(matches!(response, LambdaResponse::Batch(batch) if batch.batch_item_failures.is_empty()));
}

#[tokio::test]
async fn stream_restarts_at_the_first_record_that_failed() {
    let host = BootstrapFixture::new().await;
    let items = entries(&host).await;
    let reacting = items.iter().position(|item| {
        pilothouse_functions::events::relay::messages_for(item, host.app.now()).unwrap().reaction.is_some()
    });
    host.app.broker.remove(&queues::reactions()).await.unwrap();
    let records: Vec<_> = items.iter().enumerate().map(|(n, item)| record(n + 100, image(item))).collect();
    let response = invoke(&host.function("relay"), &json!({ "Records": records })).await;
    let first = (reacting.unwrap() + 100).to_string();
    assert_eq!(response["batchItemFailures"], json!([{ "itemIdentifier": first }]));
}
