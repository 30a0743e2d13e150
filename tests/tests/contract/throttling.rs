//! Responses of DynamoDB under load: conflicts, throttles, and partially accepted batches. A scripted server on loopback produces them,
//! because no local cloud does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::post;
use pilothouse_sqlite::system_clock;
use pilothouse_store::dynamodb::DynamoTable;
use pilothouse_store::table::{Condition, Item, Key, Table as _, TableError, Write};
use serde_json::{Value, json};

type Response = (StatusCode, Value);

/// A DynamoDB server that plays scripted responses in order and records the requests.
struct Scripted {
    table: DynamoTable,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
    server: tokio::task::JoinHandle<()>,
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Scripted {
    async fn start(responses: Vec<Response>, attempts: u32) -> Self {
        let responses = Arc::new(Mutex::new(VecDeque::from(responses)));
        let asked: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let response = move |headers: HeaderMap, body: String| {
            let target = headers["x-amz-target"].to_str().unwrap().rsplit('.').next().unwrap().to_owned();
            seen.lock().unwrap().push((target, serde_json::from_str(&body).unwrap()));
            let (status, body) =
                responses.lock().unwrap().pop_front().expect("the script has another response");
            let response = (status, [(header::CONTENT_TYPE, "application/x-amz-json-1.0")], body.to_string());
            async move { response.into_response() }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", post(response));
        let server = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new("us-east-1"))
            .endpoint_url(format!("http://{address}"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .retry_config(
                RetryConfig::standard()
                    .with_max_attempts(attempts)
                    .with_initial_backoff(std::time::Duration::from_millis(1)),
            )
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build();
        let table = DynamoTable::new(Client::from_conf(config), "pilothouse", system_clock());
        Self { table, asked, server }
    }

    fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

fn refusal(code: &str) -> Response {
    let code = format!("com.amazonaws.dynamodb.v20120810#{code}");
    (StatusCode::BAD_REQUEST, json!({ "__type": code, "message": "as scripted" }))
}

fn canceled(codes: &[&str]) -> Response {
    let reasons: Vec<_> =
        codes.iter().map(|code| json!({ "Code": code, "Message": "as scripted" })).collect();
    let (status, mut body) = refusal("TransactionCanceledException");
    body["CancellationReasons"] = reasons.into();
    (status, body)
}

fn item(sort: &str) -> Item {
    Item {
        key: Key { partition: "p".to_owned(), sort: sort.to_owned() },
        kind: "test".to_owned(),
        version: 1,
        listing: None,
        due: None,
        expires_at: None,
        body: "{}".to_owned(),
    }
}

fn put(sort: &str) -> Write {
    Write::Put(item(sort), Condition::Absent)
}

#[tokio::test]
async fn conflicting_transactions_are_contended() {
    let dynamo = Scripted::start(vec![canceled(&["None", "TransactionConflict"])], 1).await;
    let error = dynamo.table.transact(vec![put("a"), put("b")]).await.unwrap_err();
    assert!(matches!(error, TableError::Contended), "{error:?}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn write_during_a_transaction_is_contended() {
    let dynamo = Scripted::start(vec![refusal("TransactionConflictException")], 1).await;
    let error = dynamo.table.transact(vec![put("a")]).await.unwrap_err();
    assert!(matches!(error, TableError::Contended), "{error:?}");
}

#[tokio::test]
async fn failed_condition_is_reported_despite_throttling() {
    let response = canceled(&["ThrottlingError", "ConditionalCheckFailed", "TransactionConflict"]);
    let dynamo = Scripted::start(vec![response], 1).await;
    let error = dynamo.table.transact(vec![put("a"), put("b"), put("c")]).await.unwrap_err();
    assert!(matches!(&error, TableError::ConditionFailed { writes } if *writes == [1]), "{error:?}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn throttled_requests_are_retried_and_then_reported() {
    let throttle = || refusal("ThrottlingException");
    let dynamo = Scripted::start(vec![throttle(), throttle(), (StatusCode::OK, json!({}))], 3).await;
    dynamo.table.transact(vec![put("a")]).await.unwrap();
    let requests = dynamo.asked();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0], requests[2], "the retried request is the same");

    for code in ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"] {
        let dynamo = Scripted::start(vec![refusal(code), refusal(code)], 2).await;
        let error = dynamo.table.get(&item("a").key).await.unwrap_err();
        assert!(matches!(error, TableError::Throttled), "{code}: {error:?}");
        assert!(error.is_transient());
    }
}

/// A retry after a lost response must not fail on the conditions that the first attempt changed.
#[tokio::test]
async fn transaction_is_retried_under_the_same_token() {
    let lost =
        (StatusCode::INTERNAL_SERVER_ERROR, json!({ "__type": "InternalServerError", "message": "lost" }));
    let dynamo = Scripted::start(vec![lost, (StatusCode::OK, json!({}))], 2).await;
    dynamo.table.transact(vec![put("a"), put("b")]).await.unwrap();
    let tokens: Vec<_> = dynamo.asked().iter().map(|(_, body)| body["ClientRequestToken"].clone()).collect();
    assert_eq!(tokens.len(), 2);
    assert!(tokens[0].is_string() && tokens[0] == tokens[1], "{tokens:?}");
}

#[tokio::test]
async fn unprocessed_batch_items_are_retried() {
    let left = |sorts: &[&str]| {
        let requests: Vec<_> = sorts
            .iter()
            .map(|sort| json!({ "PutRequest": { "Item": { "pk": { "S": "p" }, "sk": { "S": sort } } } }))
            .collect();
        (StatusCode::OK, json!({ "UnprocessedItems": { "pilothouse": requests } }))
    };
    let none = (StatusCode::OK, json!({ "UnprocessedItems": {} }));
    let dynamo = Scripted::start(vec![left(&["b", "c"]), left(&["c"]), none], 1).await;
    dynamo.table.put_all(vec![item("a"), item("b"), item("c")]).await.unwrap();
    let sizes: Vec<_> = dynamo
        .asked()
        .iter()
        .map(|(target, body)| {
            assert_eq!(target, "BatchWriteItem");
            body["RequestItems"]["pilothouse"].as_array().unwrap().len()
        })
        .collect();
    assert_eq!(sizes, [3, 2, 1]);

    let never = (0..8).map(|_| left(&["a"])).collect();
    let dynamo = Scripted::start(never, 1).await;
    let error = dynamo.table.put_all(vec![item("a")]).await.unwrap_err();
    assert!(matches!(error, TableError::Throttled), "{error:?}");
}
