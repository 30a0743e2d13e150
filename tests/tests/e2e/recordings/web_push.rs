//! Web Push: which browsers receive notifications.

use serde_json::json;

use super::recorder::Recorder;

#[tokio::test]
async fn web_push() {
    let mut on = Recorder::start("web-push").await;
    let path = "/api/web-push/subscriptions";
    let key = on.owner().api.get("/api/web-push/key").await.expect(200).body;
    on.replace(key["publicKey"].as_str().unwrap(), "<public key>");
    on.get("/api/web-push/key").await.expect(200);
    on.get("/api/settings").await.expect(200);
    let body = json!({
        "endpoint": "https://push.example/abc", "device": "Phone",
        "keys": {
            // The example of RFC 8291.
            "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    });
    let created = on.post(path, body.clone()).await.expect(201).body;
    let id = created["id"].as_str().unwrap().to_owned();
    on.name(&id, "subscription");
    let mut fewer = body;
    fewer["kinds"] = json!(["session-failed"]);
    on.post(path, fewer).await.expect(200);
    let wrong = json!({ "endpoint": "https://push.example/abc", "device": "", "keys": { "p256dh": "x" }, "kinds": ["all"] });
    on.post(path, wrong).await.expect(422);
    on.get(path).await.expect(200);
    on.delete(&format!("{path}/{id}")).await.expect(204);
    on.delete(&format!("{path}/{id}")).await.expect(404);
    on.finish();
}
