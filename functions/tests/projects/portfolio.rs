//! All projects at a glance, and the health of an agent.

use std::time::Duration;

use super::*;

impl ProjectFixture {
    async fn got(&self, path: &str) -> Value {
        let (status, body) = self.send("GET", path, Value::Null).await;
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn health(&self) -> Value {
        self.got(&format!("/api/agents/{}/health", self.agent)).await
    }
}

#[tokio::test]
async fn portfolio_shows_each_project_at_a_glance() {
    let fixture = ProjectFixture::working().await;
    let other = json!({ "name": "Empty", "spendingCap": { "usd": "5" } });
    assert_eq!(fixture.send("POST", "/api/projects", other).await.0, 201);
    fixture.tell(permission("q1")).await;
    fixture.react().await;
    fixture.advance(Duration::from_secs(5));
    let scope = json!({ "type": "workstream", "projectId": fixture.project, "workstream": "api" });
    let (_, brake) = fixture.send("POST", "/api/brake", json!({ "scope": scope, "reason": "Stop" })).await;

    let page = fixture.got("/api/portfolio").await;
    let [empty, shop] = &page["items"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&empty["name"], &empty["agents"]), (&json!("Empty"), &json!({})));
    assert_eq!((empty.get("trust"), &empty["spendingCap"]["usd"]), (None, &json!("5")));
    assert_eq!(shop["agents"], json!({ "waiting_on_human": 1 }));
    assert_eq!(shop["openDecisions"], json!({ "high": 1 }));
    assert_eq!((&shop["tick"], &shop["controlMode"]), (&json!(5), &json!("adaptive")));
    assert_eq!((&shop["brakes"][0]["id"], &shop["brakes"][0]["scope"]), (&brake["id"], &scope));
    assert_eq!(shop["trust"], json!({ "lowest": 50, "median": 50 }));

    let first = fixture.got("/api/portfolio?limit=1").await;
    let next = first["nextCursor"].as_str().unwrap();
    let second = fixture.got(&format!("/api/portfolio?limit=1&cursor={next}")).await;
    assert_eq!(second["items"][0]["name"], "Shop");
    let (status, nothing) = fixture.send_as("eve", "GET", "/api/portfolio", Value::Null).await;
    assert_eq!((status, &nothing["items"]), (200, &json!([])), "another owner has other projects");
}

#[tokio::test]
async fn health_shows_run_brief_and_what_waits() {
    let fixture = ProjectFixture::working().await;
    fixture.tell(permission("q1")).await;
    let health = fixture.health().await;
    assert_eq!((&health["status"], &health["pendingDecisions"]), (&json!("waiting_on_human"), &json!(1)));
    assert_eq!((&health["run"]["phase"], &health["run"]["ordinal"]), (&json!("Live"), &json!(1)));
    assert!(health["run"]["lastSeenAt"].is_string(), "{health}");
    assert_eq!((&health["briefSync"], &health["runCount"]), (&json!("synced"), &json!(1)));

    fixture.advance(Duration::from_secs(1));
    let brief = json!({ "role": "Builder", "workstream": "api", "constraints": ["Write tests"] });
    let path = format!("/api/agents/{}/brief", fixture.agent);
    assert_eq!(fixture.send("PATCH", &path, brief).await.0, 200);
    let health = fixture.health().await;
    assert_eq!((&health["briefSync"], &health["briefVersion"]), (&json!("pending"), &json!(2)));
    fixture.end_run().await;
    let health = fixture.health().await;
    assert_eq!((&health["briefSync"], health.get("run")), (&json!("synced"), None), "the next run has it");
    let path = format!("/api/agents/{}/health", fixture.agent);
    assert_eq!(fixture.send_as("eve", "GET", &path, Value::Null).await.0, 404);
}
