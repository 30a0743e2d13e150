//! All projects at a glance, and the health of an agent.

use std::time::Duration;

use super::*;

impl ProjectFixture {
    pub(super) async fn got(&self, path: &str) -> Value {
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
    fixture.spend("1.5").await;
    fixture.observe(permission("q1")).await;
    fixture.react().await;
    fixture.advance(Duration::from_secs(5));
    let scope = json!({ "type": "workstream", "projectId": fixture.project, "workstream": "api" });
    let (_, brake) = fixture.send("POST", "/api/brake", json!({ "scope": scope, "reason": "Stop" })).await;

    let page = fixture.got("/api/portfolio").await;
    let [empty, shop] = &page["items"].as_array().unwrap()[..] else { panic!("{page}") };
    assert_eq!((&empty["name"], &empty["agents"]), (&json!("Empty"), &json!({})));
    assert_eq!((empty.get("trust"), &empty["spendingCap"]["usd"]), (None, &json!("5")));
    assert_eq!(shop["agents"], json!({ "waiting_on_human": 1 }));
    assert_eq!((&empty["spentUsd"], &shop["spentUsd"]), (&json!("0"), &json!("1.5")));
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
async fn portfolio_is_filtered_by_whether_projects_are_archived() {
    let fixture = ProjectFixture::working().await;
    let (_, old) = fixture.send("POST", "/api/projects", json!({ "name": "Old" })).await;
    let archive = format!("/api/projects/{}/archive", old["id"].as_str().unwrap());
    assert_eq!(fixture.send("POST", &archive, Value::Null).await.0, 200);
    for (is_archived, name) in [(true, "Old"), (false, "Shop")] {
        let page = fixture.got(&format!("/api/portfolio?isArchived={is_archived}")).await;
        let [only] = &page["items"].as_array().unwrap()[..] else { panic!("{page}") };
        assert_eq!((&only["name"], only["archivedAt"].is_string()), (&json!(name), is_archived));
    }
}

#[tokio::test]
async fn health_shows_run_brief_and_pending_decisions() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    let health = fixture.health().await;
    assert_eq!((&health["status"], &health["pendingDecisions"]), (&json!("waiting_on_human"), &json!(1)));
    assert_eq!((&health["run"]["phase"], &health["run"]["ordinal"]), (&json!("Live"), &json!(1)));
    assert!(health["run"]["lastSeenAt"].is_string(), "{health}");
    assert_eq!((&health["pluginName"], &health["run"]["eventsEmitted"]), (&json!("script"), &json!(0)));
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

#[tokio::test]
async fn agents_and_decisions_are_filtered() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("q1")).await;
    let acp = json!({
        "brief": { "role": "Tester", "workstream": "api", "adapter": "acp" },
        "objective": "Test it", "workingDirectory": "/w", "budgetCapUsd": "5", "allowUnmetered": true,
    });
    let (_, second) = fixture.send("POST", "/api/agents/spawn", acp).await;
    let (first, second) = (json!(fixture.agent), second["agent"]["id"].clone());
    let ids = async |path: String| {
        let page = fixture.got(&path).await;
        page["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect::<Vec<_>>()
    };
    let agents = async |query: &str| ids(format!("/api/agents?{query}")).await;
    assert_eq!(agents("status=waiting_on_human").await, std::slice::from_ref(&first));
    assert_eq!(agents("status=running").await, std::slice::from_ref(&second));
    assert_eq!(agents("pluginName=acp&workstream=api").await, std::slice::from_ref(&second));
    assert_eq!(agents("workstream=docs").await, [] as [Value; 0]);
    let page = fixture.got("/api/agents?limit=1&workstream=api").await;
    let next = page["nextCursor"].as_str().unwrap();
    assert_eq!(page["items"][0]["briefSync"], "synced");
    let rest = agents(&format!("limit=1&workstream=api&cursor={next}")).await;
    assert_eq!((&page["items"][0]["id"], rest), (&first, vec![second.clone()]));
    let (status, _) = fixture.send("GET", &format!("/api/agents?cursor={next}"), Value::Null).await;
    assert_eq!(status, 422, "a cursor belongs to its filter");
    let (status, body) = fixture.send("GET", "/api/agents?status=lazy", Value::Null).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("status")));

    let decisions = async |query: String| ids(format!("/api/decisions?{query}")).await.len();
    assert_eq!(decisions(format!("projectId={}", fixture.project)).await, 1);
    assert_eq!(decisions(format!("agentId={}", fixture.agent)).await, 1);
    assert_eq!(decisions(format!("agentId={}", second.as_str().unwrap())).await, 0);
    assert_eq!(decisions(format!("projectId={}", uuid::Uuid::from_u128(1))).await, 0);
}

#[tokio::test]
async fn list_and_health_count_the_same_decisions() {
    let fixture = ProjectFixture::working().await;
    let counts = async || {
        let health = fixture.health().await;
        let agent = fixture.got(&format!("/api/agents/{}", fixture.agent)).await;
        (agent["pendingDecisions"].clone(), health["pendingDecisions"].clone())
    };
    fixture.observe(permission("q1")).await;
    assert_eq!(counts().await, (json!(1), json!(1)));
    let body = json!({ "scope": { "type": "all" }, "reason": "Stop" });
    let (_, brake) = fixture.send("POST", "/api/brake", body).await;
    fixture.react_to("brake", brake["id"].as_str().unwrap(), 1).await;
    assert_eq!(counts().await, (json!(0), json!(0)), "the brake suspends it");
    let fixture = ProjectFixture::working().await;
    fixture.complete_turn(true).await;
    let agent = fixture.got(&format!("/api/agents/{}", fixture.agent)).await;
    assert_eq!(agent["pendingDecisions"], 1, "an output waits");
}
