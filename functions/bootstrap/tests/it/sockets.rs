//! Connections of the live stream.

use pilothouse_bootstrap::Failure;
use serde_json::json;

use crate::ground::{Stage, answer, fixture};

#[tokio::test]
async fn a_connection_is_remembered_by_whom_the_authorizer_found_and_forgotten_when_it_ends() {
    let stage = Stage::new().await;
    let id = "AAAA1234=".parse().unwrap();
    assert_eq!(
        answer(&stage.function("stream-open"), &fixture("connect")).await,
        json!({ "statusCode": 200 })
    );
    let connection = stage.app.store.connection(&id).await.unwrap().unwrap();
    assert_eq!(connection.value.owner.to_string(), "ada");
    answer(&stage.function("stream-closed"), &fixture("disconnect")).await;
    assert!(stage.app.store.connection(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn a_connection_that_no_authorizer_let_in_is_refused() {
    let stage = Stage::new().await;
    let mut event = fixture("connect");
    event["requestContext"].as_object_mut().unwrap().remove("authorizer");
    assert_eq!(answer(&stage.function("stream-open"), &event).await, json!({ "statusCode": 401 }));
}

#[tokio::test]
async fn nobody_is_let_in_without_a_token_and_the_issuer_is_not_asked_for_it() {
    let stage = Stage::new().await;
    let mut event = fixture("authorizer");
    event["queryStringParameters"] = json!({});
    let decision = answer(&stage.function("stream-authorize"), &event).await;
    assert_eq!(decision["policyDocument"]["Statement"][0]["Effect"], "Deny");
    assert_eq!(decision["policyDocument"]["Statement"][0]["Resource"], event["methodArn"]);
}

#[tokio::test]
async fn a_token_that_cannot_be_checked_is_a_failure_and_no_decision() {
    let stage = Stage::new().await;
    let failed = stage.function("stream-authorize").run(&fixture("authorizer").to_string()).await;
    assert!(matches!(failed, Err(Failure::Function(_))));
}

#[tokio::test]
async fn without_a_live_stream_nothing_can_be_pushed() {
    let stage = Stage::new().await;
    for (name, event) in [("stream-subscribe", "message"), ("push", "sqs")] {
        let failed = stage.function(name).run(&fixture(event).to_string()).await;
        assert!(matches!(failed, Err(Failure::NotDeployed(_))), "{name}");
    }
}
