//! Large event bodies that sidecars store with the token of their run.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pilothouse_domain::AgentSessionId;
use pilothouse_wire::keys::sha256_hex;
use pilothouse_wire::launch::LaunchRequest;
use serde_json::json;

use crate::fixture::WorkersFixture;

#[tokio::test]
async fn blob_is_stored_under_its_hash_for_its_session_only() {
    let fixture = WorkersFixture::new().await;
    let (run, other) = (fixture.session("ada").await, fixture.session("ada").await);
    let token = fixture.secret.gateway_token(run.session_id, run.run_id);
    let content = json!("a large event body");
    let hash = sha256_hex(content.to_string().as_bytes());
    let put = async |hash: &str| {
        let path = format!("/internal/gateway/blobs/{hash}");
        fixture.send(Err(token.as_str()), "PUT", &path, content.clone()).await
    };
    let get = async |owner: &str, session: AgentSessionId| {
        let path = format!("/api/agents/sessions/{session}/blobs/{hash}");
        fixture.send(Ok(owner), "GET", &path, json!({})).await
    };
    let wrong = put(&"0".repeat(64)).await;
    assert_eq!((wrong.status, &wrong.body["violations"][0]["field"]), (422, &json!("sha256")));
    assert_eq!(get("ada", run.session_id).await.status, 404, "nothing is stored yet");
    for _ in 0..2 {
        assert_eq!(put(&hash).await.status, 204, "an upload can be repeated");
    }
    let stored = get("ada", run.session_id).await;
    assert_eq!((stored.status, &stored.body), (200, &content));
    assert_eq!(get("ada", other.session_id).await.status, 404, "another session");
    assert_eq!(get("bob", run.session_id).await.status, 404, "another owner");
}

#[tokio::test]
async fn run_gets_the_images_of_its_session_until_it_ends() {
    let fixture = WorkersFixture::new().await;
    let (run, other) = (fixture.session("ada").await, fixture.session("ada").await);
    let image = b"\x89PNG\r\n\x1a\nand so on";
    let path = format!("/internal/gateway/images/{}", sha256_hex(image));
    let get = async |of: &LaunchRequest| {
        let token = fixture.secret.gateway_token(of.session_id, of.run_id);
        fixture.send(Err(token.as_str()), "GET", &path, json!({})).await.status
    };
    assert_eq!(get(&run).await, 404, "no message has it");
    let queue = format!("/api/agents/sessions/{}/messages/queue", run.session_id);
    let images = json!([{ "mediaType": "image/png", "base64": STANDARD.encode(image) }]);
    let sent = fixture.send(Ok("ada"), "POST", &queue, json!({ "content": "look", "images": images })).await;
    assert_eq!(sent.status, 201, "{}", sent.body);
    assert_eq!(sent.body["message"]["images"][0]["sha256"], sha256_hex(image));
    assert!(!sent.body.to_string().contains(&STANDARD.encode(image)), "the answer has no bytes");
    assert_eq!((get(&run).await, get(&other).await), (200, 404), "another session");
    let blob = format!("/api/agents/sessions/{}/blobs/{}", run.session_id, sha256_hex(image));
    assert_eq!(fixture.send(Ok("ada"), "GET", &blob, json!({})).await.status, 200, "its owner sees it");
    assert_eq!(fixture.send(Ok("bob"), "GET", &blob, json!({})).await.status, 404);
    fixture.end(&run).await;
    assert_eq!(get(&run).await, 410);
}
