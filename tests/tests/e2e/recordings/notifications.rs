//! Notifications and the event feed.

use pilothouse_tests::PATIENCE;
use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::with_output;

#[tokio::test]
async fn notifications() {
    let mut on = Recorder::start("notifications").await;
    let session = on.started("session", &with_output()).await;
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    let output = json!({ "outputId": view["output"]["outputId"] });
    session.post("/approve", output).await.expect(200);
    session.until("the end of its run", |view| view["currentRun"].is_null()).await;
    let feed = "/api/events";
    let published = async || {
        let page = session.api.get(feed).await.expect(200).body;
        let items = page["items"].as_array().unwrap();
        let ends = ["AgentSessionApprovedEvent", "SessionReleasedEvent"];
        ends.iter().all(|end| items.iter().any(|item| item["type"] == *end)).then_some(())
    };
    session.until_within(PATIENCE, "the end in the feed", published).await;

    on.get(feed).await.expect(200);
    on.get(&format!("{feed}?limit=1&after=1")).await.expect(200);
    on.get(&format!("{feed}?after=yesterday")).await.expect(422);
    let path = "/api/notifications";
    let all: Value = on.get(path).await.expect(200).body;
    let page = on.get(&format!("{path}?limit=1")).await.expect(200).body;
    let cursor = page["nextCursor"].as_str().unwrap();
    on.get(&format!("{path}?limit=1&cursor={cursor}")).await.expect(200);
    let first = all["items"][1]["sequence"].as_u64().unwrap();
    on.post(&format!("{path}/{first}/read"), json!({})).await.expect(200);
    on.post(&format!("{path}/999/read"), json!({})).await.expect(404);
    on.get(&format!("{path}?unread=true")).await.expect(200);
    on.get(&format!("{path}?unread=perhaps")).await.expect(422);
    on.post(&format!("{path}/read"), json!({})).await.expect(200);
    on.post(&format!("{path}/read"), json!({})).await.expect(200);
    on.get(&format!("{path}?unread=true")).await.expect(200);
    on.finish();
}
