//! Images of messages and of the objective (decision 100).

use pilothouse_tests::Session;
use pilothouse_wire::keys::sha256_hex;
use serde_json::{Value, json};

use crate::scripts::{endless, say, script, turn};
use crate::server::{Server, started, work};

/// Texts, so that responses with them are readable.
const FIRST: (&[u8], &str) = (b"GIF89a and so on", "R0lGODlhIGFuZCBzbyBvbg==");
const SECOND: (&[u8], &str) = (b"GIF89a", "R0lGODlh");

fn image((_, base64): (&[u8], &str)) -> Value {
    json!({ "mediaType": "image/gif", "base64": base64 })
}

/// Images reach the agent. Lists show references to them, and their owner reads the bytes.
#[tokio::test]
async fn images_reach_the_agent_and_lists_show_references() {
    let server = Server::start(1).await;
    let turns = [say("At first: {{images}}."), json!({ "waitForMessage": {} }), say("Then: {{images}}.")];
    let mut body = work(&server, &script(&[turn(&turns)]));
    body["images"] = json!([image(FIRST)]);
    let session = Session::start(&server.api(), body).await;
    session.until_said("At first: image/gif (16 bytes).").await;
    let reference = |(bytes, _): (&[u8], &str)| {
        json!({ "mediaType": "image/gif", "sha256": sha256_hex(bytes), "sizeBytes": bytes.len(),
            "sessionId": session.id })
    };
    assert_eq!(session.view().await["images"], json!([reference(FIRST)]));

    let images = json!([image(SECOND), image(FIRST)]);
    let message = json!({ "content": "Look.", "priority": "Immediate", "images": images });
    let sent = session.post("/messages/queue", message).await.expect(201).body;
    assert_eq!(sent["message"]["images"], json!([reference(SECOND), reference(FIRST)]));
    session.until_said("Then: image/gif (6 bytes), image/gif (16 bytes).").await;
    let of_message = |all: &[Value]| all.iter().any(|m| m["messageId"] == sent["message"]["messageId"]);
    let messages = session.until_messages("the message", of_message).await;
    let look = messages.iter().find(|message| message["content"] == "Look.").unwrap();
    assert_eq!(look["images"], json!([reference(SECOND), reference(FIRST)]));
    let activity = session.activity().await;
    let is_enqueued = |line: &Value| line["summary"].as_str().unwrap().ends_with("Look. [2 images]");
    assert!(activity.iter().any(is_enqueued), "{activity:#?}");
    for list in ["", "/messages", "/messages/queue", "/activity", "/events"] {
        let text = session.get(list).await.expect(200).text;
        assert!(!text.contains(FIRST.1), "{list} contains the bytes");
    }
    let blob = format!("/blobs/{}", sha256_hex(FIRST.0));
    assert_eq!(session.get(&blob).await.expect(200).text.as_bytes(), FIRST.0);
    server.api_of("eve").session(&session.id).get(&blob).await.refused(404, "not-found");
}

/// A repeated message has the same images (decision 28).
#[tokio::test]
async fn same_message_id_with_other_images_is_refused() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let send = async |images: Value| {
        let id = "01900000-0000-7000-8000-00000000abcd";
        let body = json!({ "messageId": id, "content": "Look.", "priority": "Queued", "images": images });
        session.post("/messages/queue", body).await
    };
    let first = send(json!([image(FIRST)])).await.expect(201);
    assert_eq!(send(json!([image(FIRST)])).await.expect(201).body, first.body);
    for images in [json!([]), json!([image(SECOND)]), json!([image(FIRST), image(SECOND)])] {
        send(images).await.refused(409, "idempotency-mismatch");
    }
    assert_eq!(session.queue().await["items"].as_array().unwrap().len(), 1);
}
