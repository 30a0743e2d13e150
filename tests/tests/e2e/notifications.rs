//! Notifications of owners and the event feed for other contexts (S0 8.10, decision 37).

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::scripts::{short, with_output};
use crate::server::{Server, started};

async fn until_notified(server: &Server, session: &Session, count: usize) -> Vec<Value> {
    session
        .until_within(PATIENCE, "the notifications", async || {
            let all = server.api().all("/api/notifications").await;
            (all.len() >= count).then_some(all)
        })
        .await
}

/// Waits for the first event of this type in the feed of the session's owner, and returns its details.
pub(crate) async fn until_published(session: &Session, event: &str) -> Value {
    session
        .until_within(PATIENCE, event, async || {
            let feed = session.api.get("/api/events?limit=200").await.expect(200).body;
            let mut events = feed["items"].as_array().unwrap().iter();
            events.find(|one| one["type"] == event).map(|one| one["detail"].clone())
        })
        .await
}

/// From a cursor to the end, and the cursor there.
async fn feed(server: &Server, after: &str) -> (Vec<Value>, String) {
    let (mut items, mut after) = (Vec::new(), after.to_owned());
    loop {
        let page = server.api().get(&format!("/api/events?limit=3&after={after}")).await.expect(200).body;
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        page["cursor"].as_str().unwrap().clone_into(&mut after);
        if page["more"] == false {
            return (items, after);
        }
    }
}

/// Owners are notified once of the events that S0 8.10 names, even if the server is killed in between, and mark them as read.
#[tokio::test]
async fn owner_is_notified_once_and_marks_it_read() {
    let mut server = Server::start(1).await;
    let session = started(&server, &with_output()).await;
    let view = session.until("output", |v| v["hasPendingReview"] == true).await;
    server.restart().await;
    session.post("/approve", json!({ "outputId": view["output"]["outputId"] })).await.expect(200);
    let all = until_notified(&server, &session, 2).await;
    let kinds: Vec<_> = all.iter().map(|one| one["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["session-completed", "output-ready"], "newest first, each once: {all:#?}");
    assert!(all.iter().all(|one| one["sessionId"] == session.id.as_str()));
    server.restart().await;
    assert_eq!(server.api().all("/api/notifications").await, all, "no notification is repeated");

    let unread = async || server.api().all("/api/notifications?unread=true").await;
    assert_eq!(unread().await, all);
    let first = all[1]["sequence"].as_u64().unwrap();
    let read =
        server.api().post(&format!("/api/notifications/{first}/read"), json!({})).await.expect(200).body;
    assert!(read["readAt"].is_string());
    let again = server.api().post(&format!("/api/notifications/{first}/read"), json!({})).await.expect(200);
    assert_eq!(again.body, read, "the time of the first read is kept");
    assert_eq!(unread().await, [all[0].clone()]);
    let marked = server.api().post("/api/notifications/read", json!({})).await.expect(200).body;
    assert_eq!(marked, json!({ "read": 1, "more": false }));
    assert_eq!(unread().await, [] as [Value; 0]);

    let stranger = server.api_of("someone-else");
    assert_eq!(stranger.all("/api/notifications").await, [] as [Value; 0]);
    let path = format!("/api/notifications/{first}/read");
    stranger.post(&path, json!({})).await.refused(404, "not-found");
    server.api().get("/api/notifications?unread=perhaps").await.refused(422, "validation-failed");
}

/// Other contexts receive all events in order, and continue at any cursor.
#[tokio::test]
async fn feed_continues_after_any_cursor() {
    let mut server = Server::start(1).await;
    let session = started(&server, &with_output()).await;
    session.until("output", |v| v["hasPendingReview"] == true).await;
    until_notified(&server, &session, 1).await;
    let (first, cursor) = feed(&server, "0").await;
    let names: Vec<_> = first.iter().map(|one| one["type"].as_str().unwrap()).collect();
    for name in ["AgentSessionCreatedEvent", "AgentSessionStartedEvent", "AgentSessionOutputReadyEvent"] {
        assert_eq!(names.iter().filter(|listed| **listed == name).count(), 1, "{name} in {names:?}");
    }
    for one in &first {
        assert_eq!(one["source"], "pilothouse.agents");
        assert_eq!(one["detail"]["sessionId"], session.id.as_str(), "{one}");
        assert_eq!(one["detail"].get("command"), None);
        let (rest, _) = feed(&server, &one["sequence"].to_string()).await;
        let expected: Vec<_> = first
            .iter()
            .filter(|other| other["sequence"].as_u64() > one["sequence"].as_u64())
            .cloned()
            .collect();
        assert_eq!(rest, expected);
    }
    let ids: BTreeSet<_> = first.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), first.len());
    assert_eq!(feed(&server, &cursor).await, (Vec::new(), cursor.clone()), "the feed has no further events");

    server.restart().await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let body = json!({ "title": "Cover it", "priority": "Low", "linkedTaskId": "T-1" });
    let task = agent.post("/api/agent/tasks", body).await.expect(201).body["taskId"].clone();
    let entry = session
        .until_within(PATIENCE, "the task in the feed", async || {
            let (new, _) = feed(&server, &cursor).await;
            new.into_iter().find(|one| one["type"] == "AgentApiTaskCreatedEvent")
        })
        .await;
    assert_eq!(entry["detail"]["createdTaskId"], task);
    assert_eq!(
        (&entry["detail"]["title"], &entry["detail"]["linkedTaskId"], &entry["detail"]["source"]),
        (&json!("Cover it"), &json!("T-1"), &json!("AgentApi"))
    );
    assert_eq!(server.api_of("someone-else").get("/api/events").await.expect(200).body["items"], json!([]));
    server.api().get("/api/events?after=yesterday").await.refused(422, "validation-failed");
}

/// A live stream pushes new notifications, and with a cursor also the missed ones.
#[tokio::test]
async fn notifications_are_pushed_live() {
    let server = Server::start(1).await;
    let open = async |after: &str| {
        let url = format!("{}/ws/notifications{after}", server.url().replacen("http", "ws", 1));
        let mut request = url.into_client_request().unwrap();
        let token = format!("Bearer {}", server.token("local"));
        request.headers_mut().insert("authorization", token.parse().unwrap());
        connect_async(request).await.unwrap().0
    };
    let mut live = open("").await;
    let mut next = async || loop {
        let message = timeout(PATIENCE, live.next()).await.unwrap().unwrap().unwrap();
        if let Ok(text) = message.to_text()
            && let Ok(value) = serde_json::from_str::<Value>(text)
        {
            return value;
        }
    };
    assert_eq!(next().await["type"], "caught_up");
    let session = started(&server, &with_output()).await;
    let notification = next().await;
    assert_eq!(
        (&notification["type"], &notification["data"]["kind"]),
        (&json!("notification"), &json!("output-ready"))
    );
    let before = notification["cursor"].as_str().unwrap().parse::<u64>().unwrap() - 1;
    let mut late = open(&format!("?after={before}")).await;
    let first = timeout(PATIENCE, late.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(serde_json::from_str::<Value>(first.to_text().unwrap()).unwrap(), notification);
    session.until("output", |v| v["hasPendingReview"] == true).await;
}

/// The end of a session without news does not notify its owner, but appears in the feed.
#[tokio::test]
async fn routine_events_do_not_notify() {
    let server = Server::start(1).await;
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    session.post("/close", json!({})).await.expect(200);
    session
        .until_within(PATIENCE, "the end in the feed", async || {
            let (all, _) = feed(&server, "0").await;
            all.into_iter().find(|one| one["type"] == "AgentSessionClosedEvent")
        })
        .await;
    assert_eq!(server.api().all("/api/notifications").await, [] as [Value; 0]);
}
