use pilothouse_bootstrap::Failure;
use serde_json::json;

use crate::bootstrap_fixture::{BootstrapFixture, fixture, invoke};

#[tokio::test]
async fn connection_is_stored_with_its_owner_and_removed_at_its_end() {
    let host = BootstrapFixture::new().await;
    let id = "AAAA1234=".parse().unwrap();
    assert_eq!(
        invoke(&host.function("stream-open"), &fixture("connect")).await,
        json!({ "statusCode": 200 })
    );
    let connection = host.app.store.connection(&id).await.unwrap().unwrap();
    assert_eq!(connection.value.owner.to_string(), "ada");
    invoke(&host.function("stream-closed"), &fixture("disconnect")).await;
    assert!(host.app.store.connection(&id).await.unwrap().is_none());
}

#[tokio::test]
async fn connection_without_an_authorizer_is_refused() {
    let host = BootstrapFixture::new().await;
    let mut event = fixture("connect");
    event["requestContext"].as_object_mut().unwrap().remove("authorizer");
    assert_eq!(invoke(&host.function("stream-open"), &event).await, json!({ "statusCode": 401 }));
}

#[tokio::test]
async fn missing_token_is_refused_without_asking_the_issuer() {
    let host = BootstrapFixture::new().await;
    let mut event = fixture("authorizer");
    event["queryStringParameters"] = json!({});
    let decision = invoke(&host.function("stream-authorize"), &event).await;
    assert_eq!(decision["policyDocument"]["Statement"][0]["Effect"], "Deny");
    assert_eq!(decision["policyDocument"]["Statement"][0]["Resource"], event["methodArn"]);
}

#[tokio::test]
async fn uncheckable_token_is_a_failure_not_a_refusal() {
    let host = BootstrapFixture::new().await;
    let failed = host.function("stream-authorize").run(&fixture("authorizer").to_string()).await;
    assert!(matches!(failed, Err(Failure::Function(_))));
}

#[tokio::test]
async fn push_fails_without_a_live_stream() {
    let host = BootstrapFixture::new().await;
    for (name, event) in [("stream-subscribe", "message"), ("push", "sqs")] {
        let failed = host.function(name).run(&fixture(event).to_string()).await;
        assert!(matches!(failed, Err(Failure::NotDeployed(_))), "{name}");
    }
}
