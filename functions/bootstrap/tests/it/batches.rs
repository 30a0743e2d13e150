//! Batches of queues: which records are retried.

use pilothouse_bootstrap::Failure;
use serde_json::{Value, json};

use crate::bootstrap_fixture::{BootstrapFixture, fixture, invoke};

fn record(id: &str, group: &str, body: &str) -> Value {
    let mut record = fixture("sqs-fifo")["Records"][0].clone();
    record["messageId"] = id.into();
    record["receiptHandle"] = format!("receipt-{id}").into();
    record["attributes"]["MessageGroupId"] = group.into();
    record["body"] = body.into();
    record
}

fn failures(response: &Value) -> Vec<&str> {
    let items = response["batchItemFailures"].as_array().unwrap();
    items.iter().map(|item| item["itemIdentifier"].as_str().unwrap()).collect()
}

/// A reference to an entry that does not exist.
const MISSING: &str = r#"{"sessionId":"01900000-0000-7000-8000-000000000001","sequence":1}"#;

#[tokio::test]
async fn failed_group_is_retried_from_its_first_failure() {
    let host = BootstrapFixture::new().await;
    let pointer = crate::relay::entry_that_reacts(&host).await;
    let event = json!({ "Records": [
        record("b1", "b", &pointer),
        record("a1", "a", MISSING),
        record("a2", "a", &pointer),
        record("b2", "b", &pointer),
    ] });
    let response = invoke(&host.function("react"), &event).await;
    assert_eq!(failures(&response), ["a1", "a2"]);
}

#[tokio::test]
async fn unreadable_record_blocks_only_its_group() {
    let host = BootstrapFixture::new().await;
    let pointer = crate::relay::entry_that_reacts(&host).await;
    let mut broken = record("a1", "a", &pointer);
    broken["body"] = 5.into();
    let mut uncounted = record("c1", "c", &pointer);
    uncounted["attributes"]["ApproximateReceiveCount"] = "many".into();
    let event = json!({ "Records": [
        broken, record("a2", "a", &pointer), uncounted, record("b1", "b", &pointer),
    ] });
    let response = invoke(&host.function("react"), &event).await;
    assert_eq!(failures(&response), ["a1", "a2", "c1"]);
}

#[tokio::test]
async fn repeatedly_failing_message_is_dead_lettered() {
    let host = BootstrapFixture::new().await;
    let mut hopeless = record("a1", "a", "no pointer");
    hopeless["attributes"]["ApproximateReceiveCount"] = "5".into();
    let response = invoke(&host.function("react"), &json!({ "Records": [hopeless] })).await;
    assert_eq!(failures(&response), [""; 0]);
}

#[tokio::test]
async fn forged_events_are_dropped() {
    let host = BootstrapFixture::new().await;
    let event = json!({ "Records": [record("a1", "a", "{}"), record("a2", "a", "no JSON")] });
    assert_eq!(failures(&invoke(&host.function("intake"), &event).await), [""; 0]);
}

#[tokio::test]
async fn deadline_of_a_deleted_session_is_acknowledged() {
    let host = BootstrapFixture::new().await;
    assert_eq!(failures(&invoke(&host.function("clock"), &fixture("sqs")).await), [""; 0]);
}

#[tokio::test]
async fn failed_deadlines_are_retried_individually() {
    let host = BootstrapFixture::new().await;
    let mut event = fixture("sqs");
    let mut unreadable = event["Records"][0].clone();
    unreadable["messageId"] = "x".into();
    unreadable["body"] = "no deadline".into();
    event["Records"].as_array_mut().unwrap().push(unreadable);
    assert_eq!(failures(&invoke(&host.function("clock"), &event).await), ["x"]);
}

#[tokio::test]
async fn malformed_batch_event_is_a_named_error() {
    let host = BootstrapFixture::new().await;
    for event in ["{}", "[]", "null", r#"{"Records":[{}]}"#] {
        let failed = host.function("intake").run(event).await;
        assert!(matches!(&failed, Err(Failure::Event { .. })), "{event}");
    }
    assert!(matches!(host.any().run("{}").await, Err(Failure::UnknownEvent)));
}
