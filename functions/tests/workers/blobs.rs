//! Large event bodies that sidecars store with the token of their run.

use pilothouse_domain::AgentSessionId;
use pilothouse_wire::keys::sha256_hex;
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
