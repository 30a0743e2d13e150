//! Emergency brakes.

use pilothouse_tests::PATIENCE;
use serde_json::json;

use super::recorder::Recorder;
use crate::scripts::endless;

#[tokio::test]
async fn brakes() {
    let mut on = Recorder::start("brakes").await;
    let working = on.started("working", &endless()).await;
    working.until_said("Working.").await;
    let all = json!({ "scope": { "type": "all" }, "reason": "It deletes the wrong files" });
    let brake = on.post("/api/brake", all).await.expect(202).body["id"].as_str().unwrap().to_owned();
    working.until_status("Paused").await;
    let path = format!("/api/brakes/{brake}");
    on.get(&path).await.expect(200);
    on.get("/api/brakes").await.expect(200);
    on.post(&working.path("/resume"), json!({})).await.expect(409);
    let body = on.work(&endless());
    let reply = on.post("/api/agents/sessions", body).await.expect(202);
    let waiting = on.session_of(&reply);
    on.get(&waiting.path("")).await.expect(200);
    on.get("/api/agents/pool").await.expect(200);
    on.post(&waiting.path("/cancel"), json!({})).await.expect(200);
    on.post(&format!("{path}/release"), json!({ "sessionIds": [working.id] })).await.expect(200);
    on.post(&format!("{path}/release"), json!({ "sessionIds": [working.id] })).await.expect(409);
    // The reaction to the release resumes the session.
    working.until_status("Running").await;
    on.post(&format!("{path}/release"), json!({})).await.expect(200);
    on.post(&format!("{path}/release"), json!({})).await.expect(409);
    on.post("/api/brake/release", json!({})).await.expect(422);
    // No session is left whose status could change while the response is made.
    working.post("/cancel", json!({})).await;
    working.until_status("Cancelled").await;
    // A brake also counts sessions that still have a slot.
    let free = async || {
        let pool = working.api.get("/api/agents/pool").await.expect(200).body;
        (pool["activeCount"] == 0).then_some(())
    };
    working.until_within(PATIENCE, "the slot is free", free).await;
    let again = json!({ "scope": { "type": "all" }, "reason": "A drill" });
    on.post("/api/brake", again).await.expect(202);
    on.post("/api/brake/release", json!({})).await.expect(200);
    let one = json!({ "type": "session", "sessionId": waiting.id });
    on.post("/api/brake", json!({ "scope": one, "behavior": "kill", "reason": "Over" })).await.expect(409);
    on.post("/api/brake", json!({ "scope": { "type": "agent" }, "behavior": "stop" })).await.expect(422);
    on.finish();
}
