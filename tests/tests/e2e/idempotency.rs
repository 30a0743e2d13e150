//! `Idempotency-Key`, `ETag` and `If-Match` (ARCHITECTURE.md, The path of a command; decision 16).

use pilothouse_tests::{Api, Reply, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, short, turn};
use crate::server::{Server, started, work};

const SESSIONS: &str = "/api/agents/sessions";

async fn post(api: &Api, path: &str, key: &str, body: &Value) -> Reply {
    api.send(Method::POST, path, &[("Idempotency-Key", key)], Some(body.to_string().into_bytes())).await
}

/// A retry returns the first response, including the API key, even if the server was killed in between.
#[tokio::test]
async fn repeated_request_gets_the_first_response() {
    let mut server = Server::start(1).await;
    let body = work(&server, &endless());
    let first = post(&server.api(), SESSIONS, "key-1", &body).await.expect(201);
    assert_eq!(first.header("idempotency-replayed"), "");
    let session = server.api().session(first.body["session"]["id"].as_str().unwrap());
    session.until_said("Working.").await;
    for round in 0..2 {
        let again = post(&server.api(), SESSIONS, "key-1", &body).await.expect(201);
        assert_eq!(again.body, first.body, "round {round}");
        assert!(again.body["apiKey"].as_str().unwrap().starts_with("ph_"), "the API key is derived again");
        assert_eq!(
            (again.header("idempotency-replayed"), again.header("etag")),
            ("true", first.header("etag"))
        );
        server.restart().await;
    }
    let other = json!({ "workingDirectory": "/tmp", "objective": "Another", "budgetCapUsd": "1" });
    post(&server.api(), SESSIONS, "key-1", &other).await.refused(409, "idempotency-mismatch");
    post(&server.api(), &session.path("/cancel"), "key-1", &json!({}))
        .await
        .refused(409, "idempotency-mismatch");
    assert_eq!(server.api().all(SESSIONS).await.len(), 1);

    // The same key of another owner is another key.
    post(&server.api_of("someone-else"), SESSIONS, "key-1", &body).await.expect(201);
    // The command takes effect once, although the status would refuse a second one.
    let paused = post(&server.api(), &session.path("/pause"), "key-2", &json!({})).await.expect(202);
    session.until_status("Paused").await;
    let again = post(&server.api(), &session.path("/pause"), "key-2", &json!({})).await.expect(202);
    assert_eq!(again.body, paused.body);
}

/// Concurrent requests with one key take effect once and get the same response.
#[tokio::test]
async fn concurrent_duplicates_run_once() {
    let server = Server::start(1).await;
    let (api, body) = (server.api(), work(&server, &short()));
    let replies =
        futures_util::future::join_all((0..12).map(|_| post(&api, SESSIONS, "one-key", &body))).await;
    for reply in &replies {
        assert_eq!((reply.status, &reply.body), (201, &replies[0].body));
    }
    assert_eq!(api.all(SESSIONS).await.len(), 1);
    let session = api.session(replies[0].body["session"]["id"].as_str().unwrap());
    session.until_status("Idle").await;

    let say = json!({ "content": "once", "priority": "Queued" });
    let path = session.path("/messages/queue");
    let replies =
        futures_util::future::join_all((0..12).map(|_| post(&api, &path, "another-key", &say))).await;
    for reply in &replies {
        assert_eq!((reply.status, &reply.body), (201, &replies[0].body));
    }
    session.until("the one turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    assert_eq!(session.said().await, ["Done.", "You said: once"]);
}

/// A refusal is not stored: the same key can succeed later.
#[tokio::test]
async fn a_refused_request_leaves_its_key_free() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    let budget = |key: &'static str, cap: &str| {
        let (api, path, body) =
            (session.api.clone(), session.path("/messages/queue"), json!({ "content": cap }));
        async move { post(&api, &path, key, &body).await }
    };
    budget("k", "").await.refused(422, "validation-failed");
    budget("k", "fine").await.expect(201);
}

async fn close(session: &Session, if_match: &str) -> Reply {
    session.api.send(Method::POST, &session.path("/close"), &[("If-Match", if_match)], None).await
}

/// A command for an older state is refused with 412. Control operations change the `ETag`; usage, messages and heartbeats do not
/// (decision 16).
#[tokio::test]
async fn stale_if_match_is_refused_and_usage_keeps_the_etag() {
    let server = Server::start(1).await;
    let usage = json!({ "usage": { "costUsd": "0.01", "tokens": { "inputTokens": 5 } } });
    let wait = json!({ "waitForMessage": {} });
    let session = started(
        &server,
        &script(&[turn(&[say("Working."), wait, usage, say("Spent."), json!({ "waitForMessage": {} })])]),
    )
    .await;
    session.until_said("Working.").await;
    let reply = session.get("").await.expect(200);
    let etag = reply.header("etag").to_owned();
    assert_eq!(etag, format!("\"{}\"", reply.body["version"]));
    session.say("spend", "Immediate").await;
    session.until_said("Spent.").await;
    let reply = session.get("").await.expect(200);
    assert_eq!(reply.body["budget"]["estimatedCostUsd"], "0.01");
    assert_eq!(reply.header("etag"), etag, "usage and messages do not change the ETag");

    session.say("end", "Immediate").await;
    session.until_status("Idle").await;
    let now = session.get("").await.header("etag").to_owned();
    assert_ne!(now, etag, "the end of a turn changes the ETag");
    close(&session, &etag).await.refused(412, "precondition-failed");
    assert_eq!(session.view().await["status"], "Idle");
    close(&session, "nonsense").await.refused(422, "validation-failed");
    assert_eq!(close(&session, &now).await.expect(200).body["status"], "Completed");

    let pool = server.api().get("/api/agents/pool").await.expect(200);
    let configure = async |tag: &str, slots: u32| {
        let body = json!({ "maxConcurrentSessions": slots }).to_string().into_bytes();
        server.api().send(Method::PATCH, "/api/agents/pool", &[("If-Match", tag)], Some(body)).await
    };
    configure("\"424242\"", 7).await.refused(412, "precondition-failed");
    assert_eq!(pool.header("etag"), format!("\"{}\"", pool.body["version"]));
}
