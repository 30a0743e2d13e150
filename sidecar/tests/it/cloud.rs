//! A fake of AWS for the gateway's run: credentials, SQS and S3.
//!
//! For SQS it implements the JSON protocol of `SendMessageBatch`, `ReceiveMessage` with long polls, and
//! `DeleteMessageBatch`, with the errors of a deleted queue and of expired credentials; for S3, `PutObject` by path. It
//! checks whose credentials signed a request, but not the signature, and does not hide received messages.
//! [`crate::real_sqs`] tests the real protocol.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{post, put};
use axum::{Json, Router};
use pilothouse_domain::Timestamp;
use pilothouse_wire::gateway::{RunCredentials, SendEntry};
use pilothouse_wire::launch::SidecarLaunch;
use serde_json::{Value, json};

use crate::gateway::{Gateway, Taken, authorised, commands, keep, remove, take};

#[derive(Default)]
pub(crate) struct CloudState {
    /// How often credentials were granted. The token contains this number.
    pub(crate) granted: u32,
    /// Credentials up to this number have expired.
    pub(crate) spent: u32,
    pub(crate) queue_gone: bool,
    /// Requests that were refused because of their credentials.
    pub(crate) refused: u32,
    pub(crate) launch: Option<SidecarLaunch>,
    /// Credentials to grant instead of those for this fake.
    pub(crate) elsewhere: Option<RunCredentials>,
}

pub(crate) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/internal/gateway/credentials", post(credentials))
        .route("/internal/gateway/launch", post(launch))
        .route("/", post(sqs))
        .route("/bucket/sessions/{session}/{sha256}", put(put_object))
}

async fn credentials(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
) -> Result<Json<RunCredentials>, StatusCode> {
    authorised(&gateway, &headers)?;
    let granted = gateway.with(|inner| {
        inner.cloud.granted += 1;
        inner.cloud.granted
    });
    if let Some(elsewhere) = gateway.look(|inner| inner.cloud.elsewhere.clone()) {
        return Ok(Json(elsewhere));
    }
    Ok(Json(RunCredentials {
        access_key_id: "AKID".into(),
        secret_access_key: "secret".into(),
        session_token: format!("token-{granted}"),
        // Later than the clock of any test.
        expires_at: Timestamp::from_millis(32_503_680_000_000),
        region: "eu-central-1".into(),
        endpoint: Some(gateway.url.clone()),
        events_queue_url: format!("{}/000000000000/events.fifo", gateway.url),
        commands_queue_url: format!("{}/000000000000/commands.fifo", gateway.url),
        bucket: "bucket".into(),
        blob_prefix: format!("sessions/{}", gateway.session),
    }))
}

async fn launch(
    State(gateway): State<Gateway>,
    headers: HeaderMap,
) -> Result<Json<SidecarLaunch>, StatusCode> {
    authorised(&gateway, &headers)?;
    gateway.look(|inner| inner.cloud.launch.clone()).map(Json).ok_or(StatusCode::SERVICE_UNAVAILABLE)
}

/// Whether the request is signed with valid credentials.
fn is_signed(gateway: &Gateway, headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    assert!(header("authorization").contains("Credential=AKID/"), "{headers:?}");
    let token = header("x-amz-security-token").strip_prefix("token-").unwrap();
    let number: u32 = token.parse().unwrap();
    gateway.with(|inner| {
        let spent = number <= inner.cloud.spent;
        inner.cloud.refused += u32::from(spent);
        !spent
    })
}

fn refusal(code: &str, query_code: &str) -> Response {
    let named = [("x-amzn-query-error", format!("{query_code};Sender"))];
    let body = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": "refused" });
    (StatusCode::BAD_REQUEST, named, Json(body)).into_response()
}

fn gone() -> Response {
    refusal("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
}

async fn sqs(State(gateway): State<Gateway>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_signed(&gateway, &headers) {
        return refusal("ExpiredToken", "ExpiredToken");
    }
    if let Some(status) = gateway.look(|inner| inner.status) {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let request: Value = serde_json::from_slice(&body).unwrap();
    let (operation, queue) = (headers["x-amz-target"].to_str().unwrap(), request["QueueUrl"].as_str());
    let queue = queue.and_then(|url| url.rsplit('/').next()).unwrap();
    match (operation, queue) {
        ("AmazonSQS.SendMessageBatch", "events.fifo") => send(&gateway, &request).await,
        ("AmazonSQS.ReceiveMessage", "commands.fifo") => receive(&gateway, &request).await,
        ("AmazonSQS.DeleteMessageBatch", "commands.fifo") => delete(&gateway, &request),
        _ => panic!("the sidecar has no business with {operation} of {queue}"),
    }
}

async fn send(gateway: &Gateway, request: &Value) -> Response {
    let entries = request["Entries"].as_array().unwrap();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    let bytes: usize = entries.iter().map(|entry| text(entry, "MessageBody").len()).sum();
    assert!(bytes <= 256 * 1024, "{bytes} bytes");
    let ids: Vec<_> = entries.iter().map(|entry| text(entry, "Id")).collect();
    let sent = entries.iter().map(|entry| {
        assert_eq!(entry["MessageGroupId"], gateway.session.to_string());
        SendEntry {
            deduplication_id: text(entry, "MessageDeduplicationId"),
            body: text(entry, "MessageBody"),
        }
    });
    match take(gateway, sent.collect()).await {
        Taken::Refused(status) => status.into_response(),
        Taken::Accepted(accepted) => {
            let (done, failed): (Vec<_>, Vec<_>) =
                ids.into_iter().enumerate().partition(|(at, _)| accepted.contains(at));
            let done = done.into_iter().map(
                |(_, id)| json!({ "Id": id, "MessageId": id, "MD5OfMessageBody": "", "SequenceNumber": "1" }),
            );
            let failed = failed
                .into_iter()
                .map(|(_, id)| json!({ "Id": id, "Code": "InternalError", "SenderFault": false }));
            Json(json!({
                "Successful": done.collect::<Vec<_>>(),
                "Failed": failed.collect::<Vec<_>>(),
            }))
            .into_response()
        }
    }
}

async fn receive(gateway: &Gateway, request: &Value) -> Response {
    let max = usize::try_from(request["MaxNumberOfMessages"].as_u64().unwrap()).unwrap();
    let wait = Duration::from_secs(request["WaitTimeSeconds"].as_u64().unwrap());
    let is_gone = || gateway.look(|inner| inner.cloud.queue_gone);
    if is_gone() {
        return gone();
    }
    let stop = || if is_gone() { Err(StatusCode::GONE) } else { Ok(()) };
    let Ok(messages) = commands(gateway, max, wait, stop).await else { return gone() };
    let messages = messages
        .into_iter()
        .map(|m| json!({ "MessageId": m.receipt, "ReceiptHandle": m.receipt, "Body": m.body }));
    Json(json!({ "Messages": messages.collect::<Vec<_>>() })).into_response()
}

fn delete(gateway: &Gateway, request: &Value) -> Response {
    let entries = request["Entries"].as_array().unwrap();
    let receipts = entries.iter().map(|entry| entry["ReceiptHandle"].as_str().unwrap().to_owned());
    if !remove(gateway, receipts.collect()) {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let done = entries.iter().map(|entry| json!({ "Id": entry["Id"] }));
    Json(json!({ "Successful": done.collect::<Vec<_>>(), "Failed": [] })).into_response()
}

async fn put_object(
    State(gateway): State<Gateway>,
    Path((session, sha256)): Path<(String, String)>,
    headers: HeaderMap,
    bytes: Bytes,
) -> Response {
    assert_eq!(session, gateway.session.to_string());
    assert_eq!(headers["x-amz-content-sha256"], sha256.as_str());
    if !is_signed(&gateway, &headers) {
        let body = "<Error><Code>ExpiredToken</Code></Error>";
        return (StatusCode::BAD_REQUEST, body).into_response();
    }
    keep(&gateway, sha256, &bytes);
    StatusCode::OK.into_response()
}
