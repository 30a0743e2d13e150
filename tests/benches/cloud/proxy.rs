//! A proxy between functions and the cloud that counts requests.
//!
//! Each function has its own address, `http://…/{function}`, which identifies its requests.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use pilothouse_store::dynamodb::image;
use pilothouse_store::table::{Condition, Item, Key, Write};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::ledger::Ledger;

const LARGEST: usize = 16 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Passed {
    /// Requests by function and action.
    pub(crate) requests: BTreeMap<(String, String), u64>,
    /// Refused table requests, mostly lost races, without their units.
    pub(crate) refused: u64,
    /// Units and items of the table.
    pub(crate) ledger: Ledger,
}

/// The proxy. Clones share the counts.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) passed: Arc<Mutex<Passed>>,
    http: reqwest::Client,
    cloud: Arc<str>,
}

impl Proxy {
    /// Starts a proxy for `cloud`, and returns it with its address.
    pub(crate) async fn start(cloud: &str) -> (Self, String) {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let proxy = Self { passed: Arc::default(), http, cloud: cloud.into() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(pass).with_state(proxy.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (proxy, address)
    }
}

async fn pass(State(proxy): State<Proxy>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await.unwrap_or_default();
    let path = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let (function, rest) = path.trim_start_matches('/').split_once('/').unwrap_or((path, ""));
    let function = function.trim_start_matches('/');
    let sent = proxy
        .http
        .request(parts.method.clone(), format!("{}/{rest}", proxy.cloud))
        .headers(parts.headers.clone())
        .body(body.clone())
        .send()
        .await;
    let response = match sent {
        Ok(response) => response,
        Err(error) => return refusal(&error),
    };
    let (status, headers) = (response.status(), response.headers().clone());
    let content = match response.bytes().await {
        Ok(content) => content,
        Err(error) => return refusal(&error),
    };
    let action = action(&parts.headers, parts.method.as_str(), &body);
    let mut passed = proxy.passed.lock().unwrap();
    if let Some(action) = action.strip_prefix("DynamoDB ") {
        if status.is_success() {
            let bill = passed.ledger.bill;
            book(&mut passed.ledger, action, &body, &content);
            if is_aside(function) {
                passed.ledger.bill = bill;
            }
        } else {
            passed.refused += 1;
        }
    }
    *passed.requests.entry((function.to_owned(), action)).or_default() += 1;
    drop(passed);
    let mut response = Response::new(Body::from(content));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response.headers_mut().remove(http::header::TRANSFER_ENCODING);
    response
}

fn refusal(error: &reqwest::Error) -> Response {
    let mut response = Response::new(Body::from(error.to_string()));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    response
}

/// The service and action of a request.
fn action(headers: &HeaderMap, method: &str, body: &Bytes) -> String {
    let target = headers.get("x-amz-target").and_then(|value| value.to_str().ok());
    if let Some((service, action)) = target.and_then(|target| target.split_once('.')) {
        let service = service.split('_').next().unwrap_or(service);
        return format!("{} {action}", service.trim_start_matches("Amazon"));
    }
    let form = String::from_utf8_lossy(body.get(..200.min(body.len())).unwrap_or_default()).into_owned();
    match form.split('&').find_map(|pair| pair.strip_prefix("Action=")) {
        Some(action) => format!("STS {action}"),
        None => format!("S3 {method}"),
    }
}

/// Whether to ignore the requests of a function: it serves workers, whose cost does not depend on load, or status queries of the bench.
pub(crate) fn is_aside(function: &str) -> bool {
    function.starts_with("workers-") || function == "sessions-get"
}

/// Records a table request in the ledger.
fn book(ledger: &mut Ledger, action: &str, asked: &[u8], response: &[u8]) {
    let asked: Value = serde_json::from_slice(asked).unwrap_or_default();
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    match action {
        "PutItem" => ledger.committed(&[put(&asked["Item"])]),
        "DeleteItem" => ledger.committed(&[delete(&asked["Key"])]),
        "TransactWriteItems" => {
            let writes = asked["TransactItems"].as_array().into_iter().flatten().map(|item| {
                if item["Put"].is_object() {
                    put(&item["Put"]["Item"])
                } else if item["Delete"].is_object() {
                    delete(&item["Delete"]["Key"])
                } else {
                    Write::Check(key(&item["ConditionCheck"]["Key"]), Condition::Always)
                }
            });
            ledger.committed(&writes.collect::<Vec<_>>());
        }
        "BatchWriteItem" => {
            let puts = asked["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
            let puts = puts.flat_map(|of| of.as_array().into_iter().flatten());
            ledger.put_alone(&puts.map(|put| item(&put["PutRequest"]["Item"])).collect::<Vec<_>>());
        }
        "GetItem" => {
            let consistent = asked["ConsistentRead"].as_bool().unwrap_or_default();
            let found: Vec<_> = response.get("Item").map(item).into_iter().collect();
            ledger.read(&found, consistent);
        }
        "Query" if asked["IndexName"].is_string() => ledger.read(&[], false),
        "Query" => {
            let found = response["Items"].as_array().into_iter().flatten().map(item);
            ledger.read(&found.collect::<Vec<_>>(), true);
        }
        "BatchGetItem" => {
            let found = response["Responses"].as_object().into_iter().flat_map(|tables| tables.values());
            for found in found.flat_map(|of| of.as_array().into_iter().flatten()) {
                ledger.read(&[item(found)], false);
            }
        }
        other => panic!("the ledger cannot record {other}"),
    }
}

fn item(image: &Value) -> Item {
    image::read(&image.to_string()).unwrap()
}

fn put(image: &Value) -> Write {
    Write::Put(item(image), Condition::Always)
}

fn key(key: &Value) -> Key {
    let part = |name: &str| key[name]["S"].as_str().unwrap().to_owned();
    Key::new(part("pk"), part("sk"))
}

fn delete(of: &Value) -> Write {
    Write::Delete(key(of), Condition::Always)
}
