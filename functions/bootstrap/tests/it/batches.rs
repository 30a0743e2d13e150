//! Batches of queues: what comes again.

use pilothouse_bootstrap::Failure;
use serde_json::{Value, json};

use crate::ground::{Stage, answer, fixture};

/// A record of the reactions queue.
fn record(id: &str, group: &str, body: &str) -> Value {
    let mut record = fixture("sqs-fifo")["Records"][0].clone();
    record["messageId"] = id.into();
    record["receiptHandle"] = format!("receipt-{id}").into();
    record["attributes"]["MessageGroupId"] = group.into();
    record["body"] = body.into();
    record
}

fn failures(answer: &Value) -> Vec<&str> {
    let items = answer["batchItemFailures"].as_array().unwrap();
    items.iter().map(|item| item["itemIdentifier"].as_str().unwrap()).collect()
}

/// Names an entry that is not there.
const MISSING: &str = r#"{"sessionId":"01900000-0000-7000-8000-000000000001","sequence":1}"#;

#[tokio::test]
async fn the_first_failure_of_a_group_and_all_that_follow_come_again_and_other_groups_do_not_wait() {
    let stage = Stage::new().await;
    let pointer = crate::relay::entry_that_reacts(&stage).await;
    let event = json!({ "Records": [
        record("b1", "b", &pointer),
        record("a1", "a", MISSING),
        record("a2", "a", &pointer),
        record("b2", "b", &pointer),
    ] });
    let answered = answer(&stage.function("react"), &event).await;
    assert_eq!(failures(&answered), ["a1", "a2"]);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stays_with_what_follows_it_in_its_group() {
    let stage = Stage::new().await;
    let pointer = crate::relay::entry_that_reacts(&stage).await;
    let mut broken = record("a1", "a", &pointer);
    broken["body"] = 5.into();
    let mut uncounted = record("c1", "c", &pointer);
    uncounted["attributes"]["ApproximateReceiveCount"] = "many".into();
    let event = json!({ "Records": [
        broken, record("a2", "a", &pointer), uncounted, record("b1", "b", &pointer),
    ] });
    let answered = answer(&stage.function("react"), &event).await;
    assert_eq!(failures(&answered), ["a1", "a2", "c1"]);
}

#[tokio::test]
async fn what_keeps_failing_is_buried_and_does_not_come_again() {
    let stage = Stage::new().await;
    let mut hopeless = record("a1", "a", "no pointer");
    hopeless["attributes"]["ApproximateReceiveCount"] = "5".into();
    let answered = answer(&stage.function("react"), &json!({ "Records": [hopeless] })).await;
    assert_eq!(failures(&answered), [""; 0]);
}

#[tokio::test]
async fn forged_events_are_dropped() {
    let stage = Stage::new().await;
    let event = json!({ "Records": [record("a1", "a", "{}"), record("a2", "a", "no JSON")] });
    assert_eq!(failures(&answer(&stage.function("intake"), &event).await), [""; 0]);
}

#[tokio::test]
async fn a_deadline_of_a_session_that_is_gone_is_done() {
    let stage = Stage::new().await;
    assert_eq!(failures(&answer(&stage.function("clock"), &fixture("sqs")).await), [""; 0]);
}

#[tokio::test]
async fn deadlines_that_fail_come_again_one_by_one() {
    let stage = Stage::new().await;
    let mut event = fixture("sqs");
    let mut unreadable = event["Records"][0].clone();
    unreadable["messageId"] = "x".into();
    unreadable["body"] = "no deadline".into();
    event["Records"].as_array_mut().unwrap().push(unreadable);
    assert_eq!(failures(&answer(&stage.function("clock"), &event).await), ["x"]);
}

#[tokio::test]
async fn an_event_that_is_no_batch_is_a_failure_with_a_name() {
    let stage = Stage::new().await;
    for event in ["{}", "[]", "null", r#"{"Records":[{}]}"#] {
        let failed = stage.function("intake").run(event).await;
        assert!(matches!(&failed, Err(Failure::Event { .. })), "{event}");
    }
    assert!(matches!(stage.any().run("{}").await, Err(Failure::UnknownEvent)));
}
