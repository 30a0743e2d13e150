//! The message queue of a session.

use serde_json::{Value, json};

use super::recorder::Recorder;
use crate::scripts::endless;

#[tokio::test]
async fn messages() {
    let mut on = Recorder::start("messages").await;
    let session = on.started("session", &endless()).await;
    session.until_said("Working.").await;
    let queue = session.path("/messages/queue");
    let known = "01900000-0000-7000-8000-00000000abcd";
    let first = json!({ "content": "First", "priority": "Queued", "messageId": known });
    on.post(&queue, first.clone()).await.expect(201);
    on.post(&queue, first).await.expect(201);
    on.post(&queue, json!({ "content": "Other", "messageId": known })).await.expect(409);
    let image = json!({ "mediaType": "image/gif", "base64": "R0lGODlhIGFuZCBzbyBvbg==" });
    let shown = on.post(&queue, json!({ "content": "Look", "images": [image] })).await.expect(201).body;
    let shown = shown["message"]["messageId"].as_str().unwrap().to_owned();
    on.post(
        &queue,
        json!({ "content": "Look", "images": [{ "mediaType": "image/png", "base64": "R0lGODlh" }] }),
    )
    .await
    .expect(422);
    on.post(&queue, json!({ "content": "Steer", "priority": "Immediate", "expectedTurnId": "none" }))
        .await
        .expect(409);
    on.post(&queue, json!({ "content": "", "priority": "Soon", "messageId": "x", "more": 1 }))
        .await
        .expect(422);
    let second = on.post(&queue, json!({ "content": "Second" })).await.expect(201).body;
    let second = second["message"]["messageId"].as_str().unwrap().to_owned();
    on.post(&queue, json!({ "content": "Third" })).await.expect(201);
    on.get(&queue).await.expect(200);
    on.delete(&format!("{queue}/{shown}")).await.expect(200);
    on.patch(&format!("{queue}/{second}"), json!({ "content": "Second, edited", "position": 0 }))
        .await
        .expect(200);
    on.patch(&format!("{queue}/{second}"), json!({ "position": -1 })).await.expect(422);
    on.patch(&format!("{queue}/{second}"), json!({})).await;
    on.delete(&format!("{queue}/{known}")).await.expect(200);
    on.delete(&format!("{queue}/{known}")).await.expect(404);

    // After an interrupt, pending messages wait until the owner acts.
    session.post("/interrupt", json!({})).await.expect(202);
    session.until_status("Interrupted").await;
    on.get(&queue).await.expect(200);
    on.delete(&queue).await.expect(200);
    let held = on.post(&queue, json!({ "content": "Held" })).await.expect(201).body;
    let turns =
        |count: u64| move |view: &Value| view["metrics"]["turnCount"] == count && view["status"] == "Idle";
    session.until("its turn", turns(1)).await;
    assert_eq!(held["message"]["status"], "Pending");
    on.get(&queue).await.expect(200);
    on.finish();
}

#[tokio::test]
async fn held_messages() {
    let mut on = Recorder::start("held-messages").await;
    for (name, command) in [("released", "release"), ("promoted", "promote")] {
        let session = on.started(name, &endless()).await;
        session.until_said("Working.").await;
        let held = session.say("Held", "Queued").await["messageId"].as_str().unwrap().to_owned();
        on.name(&held, &format!("{name} message"));
        session.post("/interrupt", json!({})).await.expect(202);
        session.until_status("Interrupted").await;
        let path = session.path(&format!("/messages/queue/{held}/{command}"));
        if command == "release" {
            on.post(&path, json!({})).await.expect(200);
        } else {
            on.patch(&path, json!({})).await.expect(200);
        }
        session.until("its turn", |view| view["metrics"]["turnCount"] == 1 && view["status"] == "Idle").await;
        on.get(&session.path("/messages/queue")).await.expect(200);
    }
    on.finish();
}
