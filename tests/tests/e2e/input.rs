//! Invalid input is refused with all its violations, and nothing changes.

use pilothouse_tests::Api;
use reqwest::Method;
use serde_json::{Value, json};

use crate::scripts::{endless, short};
use crate::server::{Server, started, work};

const SESSIONS: &str = "/api/agents/sessions";

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

#[tokio::test]
async fn invalid_start_reports_all_violations_and_starts_nothing() {
    let server = Server::start(1).await;
    let api = server.api();
    let good = work(&server, &short());
    for (field, value) in [
        ("workingDirectory", json!("relative/path")),
        ("workingDirectory", json!("")),
        ("workingDirectory", json!("/a/../b")),
        ("workingDirectory", json!(7)),
        ("objective", json!("")),
        ("objective", json!("   ")),
        ("objective", json!("x".repeat(2001))),
        ("objective", json!(["a"])),
        ("budgetCapUsd", json!("0")),
        ("budgetCapUsd", json!("-1")),
        ("budgetCapUsd", json!("five")),
        ("budgetCapUsd", json!(5)),
        ("warnAtPercent", json!(0)),
        ("warnAtPercent", json!(100)),
        ("warnAtPercent", json!("80")),
        ("name", json!("")),
        ("modelId", json!("")),
        ("adapter", json!("no spaces please")),
        ("allowedTools", json!([""])),
        ("labels", json!({ "": "x" })),
        ("labels", json!([])),
        ("planApprovalRequired", json!("yes")),
        ("requestTimeoutSeconds", json!(0)),
        ("contextWarnAtPercent", json!(100)),
        ("idleTimeoutSeconds", json!(-1)),
        ("pausedTimeoutSeconds", json!("an hour")),
        ("autoContinueConfig", json!({ "enabled": "maybe" })),
        ("autoContinueConfig", json!({ "validationCriteria": [] })),
        ("autoContinueConfig", json!({ "validationCriteria": [{ "type": "TestsPassing" }] })),
        (
            "autoContinueConfig",
            json!({ "validationCriteria": [
            { "type": "CoverageThreshold", "customCommand": "true", "threshold": "80", "coveragePattern": "(" },
        ] }),
        ),
        ("images", json!("a.png")),
        ("images", json!([{ "mediaType": "image/svg+xml", "base64": "R0lGODlh" }])),
        ("images", json!([{ "mediaType": "image/png", "base64": "R0lGODlh" }])),
        ("images", json!([{ "mediaType": "image/gif", "base64": "?" }])),
        ("images", json!(vec![json!({ "mediaType": "image/gif", "base64": "R0lGODlh" }); 9])),
        ("surprise", json!(true)),
    ] {
        let reply = api.post(SESSIONS, with(good.clone(), field, value.clone())).await;
        let fields = reply.refused(422, "validation-failed").violated();
        assert!(
            fields.iter().all(|f| f.starts_with(field)) && !fields.is_empty(),
            "{field} = {value}: {fields:?}"
        );
    }
    for field in ["workingDirectory", "objective", "budgetCapUsd"] {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        assert_eq!(api.post(SESSIONS, body).await.refused(422, "validation-failed").violated(), [field]);
    }
    let everything = json!({
        "workingDirectory": "here", "objective": "", "budgetCapUsd": "-3", "warnAtPercent": 101,
        "planApprovalRequired": 1, "surprise": 1, "another": {},
    });
    let reply = api.post(SESSIONS, everything).await.refused(422, "validation-failed");
    assert_eq!(
        reply.violated(),
        [
            "another",
            "budgetCapUsd",
            "objective",
            "planApprovalRequired",
            "surprise",
            "warnAtPercent",
            "workingDirectory"
        ]
    );
    for body in ["", "{", "[]", "null", "\"text\"", "{\"objective\": }"] {
        let reply = api.send(Method::POST, SESSIONS, &[], Some(body.as_bytes().to_vec())).await;
        assert_eq!(reply.status, 422, "{body}: {}", reply.text);
    }
    // The longest allowed value is accepted.
    api.post(SESSIONS, with(good, "objective", json!("é".repeat(2000)))).await.expect(201);
    assert_eq!(api.all(SESSIONS).await.len(), 1);
    assert_eq!(api.get("/api/agents/pool").await.expect(200).body["activeCount"], 1);
}

/// Invalid messages, decisions, budgets and pool settings are refused in the same way.
#[tokio::test]
async fn invalid_commands_report_violations_and_change_nothing() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let message = session.say("Stay.", "Queued").await["messageId"].as_str().unwrap().to_owned();
    let (view, queue) = (session.view().await, session.queue().await);
    let of_message = format!("/messages/queue/{message}");
    let post = Method::POST;
    let patch = Method::PATCH;
    for (method, rest, body, fields) in [
        (&post, "/messages/queue", json!({ "content": "x".repeat(4001) }), vec!["content"]),
        (&post, "/messages/queue", json!({ "content": "" }), vec!["content"]),
        (&post, "/messages/queue", json!({}), vec!["content"]),
        (
            &post,
            "/messages/queue",
            json!({ "content": 7, "priority": "Soon", "messageId": "mine", "x": 1 }),
            vec!["content", "messageId", "priority", "x"],
        ),
        (
            &post,
            "/messages/queue",
            json!({ "content": "Look.", "images": [{ "mediaType": "image/png", "base64": "R0lGODlh" }] }),
            vec!["images[0].mediaType"],
        ),
        (&post, "/switch-conversation", json!({}), vec![""]),
        (&post, "/switch-conversation", json!({ "conversationId": "" }), vec!["conversationId"]),
        (&post, "/switch-conversation", json!({ "conversationId": "c", "turnId": "t" }), vec!["turnId"]),
        (&post, "/label", json!({ "label": "" }), vec!["label"]),
        (&patch, &of_message, json!({}), vec![""]),
        (&patch, &of_message, json!({ "content": "", "position": -1 }), vec!["content", "position"]),
        (&post, "/interrupt", json!({ "clearQueue": "yes", "now": true }), vec!["clearQueue", "now"]),
        (&post, "/cancel", json!({ "force": 1 }), vec!["force"]),
        (&post, "/pause", json!({ "for": "an hour" }), vec!["for"]),
        (&post, "/approve", json!({}), vec!["outputId"]),
        (&post, "/approve", json!({ "outputId": "latest" }), vec!["outputId"]),
        (&post, "/reject", json!({ "outputId": "latest", "reason": "" }), vec!["outputId", "reason"]),
        (
            &post,
            "/retry",
            json!({ "additionalInstruction": "", "fresh": 0 }),
            vec!["additionalInstruction", "fresh"],
        ),
        (&patch, "/budget", json!({ "capUsd": "lots", "warnAtPercent": 0 }), vec!["capUsd", "warnAtPercent"]),
        (&patch, "/budget", json!({ "capUsd": "0" }), vec!["capUsd"]),
        (&patch, "/budget", json!({ "capUsd": "-1" }), vec!["capUsd"]),
        (
            &post,
            "/answer",
            json!({ "answers": [{ "question": 1, "answer": "" }] }),
            vec!["answers[0].answer", "answers[0].question", "requestId"],
        ),
        (&post, "/plan/approve", json!({ "requestId": 5 }), vec!["requestId"]),
        (&post, "/plan/reject", json!({ "requestId": "p", "feedback": "" }), vec!["feedback"]),
    ] {
        let bytes = body.to_string().into_bytes();
        let reply = session.api.send(method.clone(), &session.path(rest), &[], Some(bytes)).await;
        assert_eq!(reply.status, 422, "{rest} {body}: {}", reply.text);
        assert_eq!(reply.violated(), fields, "{rest} {body}: {}", reply.text);
        assert_eq!(reply.header("content-type"), "application/problem+json");
    }
    for slots in [json!(0), json!(1001), json!(-1), json!("3"), json!(2.5)] {
        let reply = server.api().patch("/api/agents/pool", json!({ "maxConcurrentSessions": slots })).await;
        assert_eq!(reply.refused(422, "validation-failed").violated(), ["maxConcurrentSessions"]);
    }
    assert_eq!(session.view().await, view);
    assert_eq!(session.queue().await, queue);
    session.post("/messages/queue", json!({ "content": "é".repeat(4000) })).await.expect(201);
}

/// A body over the limit is refused on every route.
#[tokio::test]
async fn oversized_body_is_refused() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    for (path, bytes) in [
        // These accept images.
        (SESSIONS.to_owned(), 5_700_001),
        (session.path("/messages/queue"), 5_700_001),
        (session.path("/cancel"), 300 * 1024),
        (session.path("/pause"), 300 * 1024),
    ] {
        let reply = server.api().send(Method::POST, &path, &[], Some(vec![b' '; bytes])).await;
        reply.refused(413, "too-large");
    }
    assert_eq!(server.api().all(SESSIONS).await.len(), 1);
}

async fn refused(api: &Api, path: &str, field: &str) {
    let reply = api.get(path).await;
    assert_eq!(reply.status, 422, "{path}: {}", reply.text);
    assert_eq!(reply.violated(), [field], "{path}");
}

/// Malformed parameters are refused by name; a cursor is valid only for its own list.
#[tokio::test]
async fn malformed_parameters_are_refused() {
    let server = Server::start(1).await;
    let api = server.api();
    for _ in 0..3 {
        started(&server, &short()).await.until_status("Idle").await;
    }
    let id = api.all(SESSIONS).await[0]["id"].as_str().unwrap().to_owned();
    let of = |rest: &str| format!("{SESSIONS}/{id}{rest}");
    let lists = [
        SESSIONS.to_owned(),
        format!("{SESSIONS}/history"),
        of("/activity"),
        of("/messages"),
        of("/tool-calls"),
        of("/logs"),
        of("/events"),
        of("/tasks"),
        "/api/agents/learnings".to_owned(),
    ];
    for list in &lists {
        for limit in ["0", "201", "-1", "ten", "1.5"] {
            refused(&api, &format!("{list}?limit={limit}"), "limit").await;
        }
        for cursor in ["nonsense", "j", "j1.x", "%00", "eyJhIjoxfQ"] {
            refused(&api, &format!("{list}?cursor={cursor}"), "cursor").await;
        }
    }
    refused(&api, &format!("{SESSIONS}?status=Asleep"), "status").await;
    refused(&api, &format!("{SESSIONS}?status=idle"), "status").await;
    refused(&api, &format!("{SESSIONS}/history?dateFrom=yesterday"), "dateFrom").await;
    refused(&api, &format!("{SESSIONS}/history?dateTo=2026-13-01T00:00:00Z"), "dateTo").await;
    refused(&api, &of("/activity?since=soon"), "since").await;
    refused(&api, &of("/events?from=first"), "from").await;
    refused(&api, &of("/events?run=latest"), "run").await;
    refused(&api, "/api/agents/learnings?kind=Weather", "kind").await;
    refused(&api, "/api/agents/learnings?sessionId=mine", "sessionId").await;

    let first = api.get(&format!("{SESSIONS}?limit=1")).await.expect(200).body;
    let cursor = first["nextCursor"].as_str().unwrap().to_owned();
    let second = api.get(&format!("{SESSIONS}?limit=1&cursor={cursor}")).await.expect(200).body;
    assert_ne!(first["items"][0]["id"], second["items"][0]["id"]);
    refused(&api, &format!("{SESSIONS}/history?cursor={cursor}"), "cursor").await;
    refused(&api, &format!("{SESSIONS}?status=Idle&cursor={cursor}"), "cursor").await;
    refused(&server.api_of("someone-else"), &format!("{SESSIONS}?cursor={cursor}"), "cursor").await;

    for (header, value) in
        [("If-Match", "nonsense"), ("Idempotency-Key", ""), ("Idempotency-Key", &"k".repeat(256))]
    {
        let reply = api.send(Method::POST, &of("/close"), &[(header, value)], None).await;
        assert_eq!(reply.refused(422, "validation-failed").violated(), [header]);
    }
    assert_eq!(api.get(&of("")).await.body["status"], "Idle");
}

/// Unknown paths are 404 and unsupported methods 405, always as problem documents.
#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let server = Server::start(1).await;
    let api = server.api();
    let session = started(&server, &endless()).await;
    for id in ["01900000-0000-7000-8000-00000000ffff", "nonsense", "..%2F..", "0"] {
        if server.in_cloud() && id.contains("%2F") {
            continue; // API Gateway treats it as a longer, unknown path.
        }
        for rest in [
            "",
            "/activity",
            "/messages",
            "/messages/queue",
            "/plan",
            "/metrics",
            "/tool-calls",
            "/logs",
            "/task-list",
        ] {
            api.get(&format!("{SESSIONS}/{id}{rest}")).await.refused(404, "not-found");
        }
        api.post(&format!("{SESSIONS}/{id}/pause"), json!({})).await.refused(404, "not-found");
        session.delete(&format!("/messages/queue/{id}")).await.refused(404, "not-found");
        session.get(&format!("/blobs/{id}")).await.refused(404, "not-found");
    }
    session.get("/plan").await.refused(404, "not-found");
    if server.in_cloud() {
        // API Gateway responds to this request itself, without a problem document.
        api.get("/api/agents/nothing").await.expect(404);
        api.delete(&session.path("")).await.expect(404);
        return;
    }
    api.get("/api/agents/nothing").await.refused(404, "not-found");
    api.get("/").await.refused(404, "not-found");
    api.delete(&session.path("")).await.refused(405, "method-not-allowed");
    api.get(&session.path("/pause")).await.refused(405, "method-not-allowed");
}
