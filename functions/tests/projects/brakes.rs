//! Brakes on agents of projects: their scopes, and the release of single agents (decision 72).

use serde_json::{Value, json};

use crate::fixture::ProjectFixture;

impl ProjectFixture {
    async fn pull(&self, scope: Value) -> (u16, Value) {
        self.send("POST", "/api/brake", json!({ "scope": scope, "reason": "Stop" })).await
    }

    /// Another agent, with its session. It waits if a brake stops it.
    async fn another(&self) -> (String, String) {
        let spawn = json!({ "brief": { "role": "Tester", "workstream": "api" }, "objective": "Test it",
            "workingDirectory": "/w", "budgetCapUsd": "5" });
        let (status, body) = self.send("POST", "/api/agents/spawn", spawn).await;
        assert!(status < 300, "{body}");
        let text = |at: &str| body.pointer(at).unwrap().as_str().unwrap().to_owned();
        (text("/agent/id"), text("/session/id"))
    }

    async fn has_run(&self, session: &str) -> bool {
        self.app.store.session(session.parse().unwrap()).await.unwrap().unwrap().run().is_some()
    }
}

#[tokio::test]
async fn agent_spawned_under_a_brake_is_released_alone() {
    let fixture = ProjectFixture::working().await;
    let (status, brake) = fixture.pull(json!({ "type": "project", "projectId": fixture.project })).await;
    assert_eq!((status, &brake["sessionCount"]), (202, &json!(1)), "{brake}");
    let id = brake["id"].as_str().unwrap();
    let (_, view) = fixture.send("GET", &format!("/api/brakes/{id}"), json!(null)).await;
    assert_eq!(view["sessions"][0]["project"]["agentId"], fixture.agent.to_string(), "{view}");
    let ((one, session), (_, other)) = (fixture.another().await, fixture.another().await);
    let path = format!("/api/brakes/{id}/release");
    let (status, body) = fixture.send("POST", &path, json!({ "agentIds": [one] })).await;
    assert_eq!(status, 200, "{body}");
    fixture.react_to("brake", id, 2).await;
    assert!(fixture.has_run(&session).await && !fixture.has_run(&other).await);
    let (status, body) = fixture.send("POST", &path, json!({ "sessionIds": [session] })).await;
    assert_eq!((status, &body["code"]), (409, &json!("not-braked")), "{body}");
    let (status, body) = fixture.send_as("eve", "POST", &path, json!({ "agentIds": [one] })).await;
    assert_eq!(status, 404, "{body}");
}

#[tokio::test]
async fn agent_that_waits_needs_no_room_for_a_sidecar() {
    let mut fixture = ProjectFixture::working().await;
    fixture.set_room(false);
    assert_eq!(fixture.pull(json!({ "type": "all" })).await.0, 202);
    let (_, session) = fixture.another().await;
    assert!(!fixture.has_run(&session).await);
}

#[tokio::test]
async fn only_brake_need_not_be_named_to_release_it() {
    let fixture = ProjectFixture::working().await;
    let release = async |body: Value| fixture.send("POST", "/api/brake/release", body).await;
    let (status, body) = release(json!({})).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("brakeId")), "{body}");
    let (_, first) = fixture.pull(json!({ "type": "all" })).await;
    let (_, second) = fixture.pull(json!({ "type": "agent", "agentId": fixture.agent })).await;
    let (status, body) = release(json!({})).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("brakeId")), "{body}");
    let (status, body) = release(json!({ "brakeId": first["id"] })).await;
    assert_eq!((status, &body["id"]), (200, &first["id"]), "{body}");
    let (status, body) = release(json!({ "agentIds": [fixture.agent] })).await;
    assert_eq!((status, &body["id"], body.get("released")), (200, &second["id"], None), "{body}");
    let (status, body) = release(json!({})).await;
    assert_eq!((status, &body["released"]["by"]), (200, &json!("owner")), "{body}");
}

/// S2's scopes have no project.
#[tokio::test]
async fn only_project_need_not_be_named_in_a_scope() {
    let fixture = ProjectFixture::working().await;
    for scope in [json!({ "type": "project" }), json!({ "type": "workstream", "workstream": "api" })] {
        let (status, body) = fixture.pull(scope).await;
        assert_eq!((status, &body["sessionCount"]), (202, &json!(1)), "{body}");
        assert_eq!(body["scope"]["projectId"], fixture.project.to_string());
    }
    let other = json!({ "name": "Other", "workstreams": [{ "id": "api", "name": "API" }] });
    assert_eq!(fixture.send("POST", "/api/projects", other).await.0, 201);
    let (status, body) = fixture.pull(json!({ "type": "project" })).await;
    assert_eq!((status, &body["violations"][0]["field"]), (422, &json!("projectId")), "{body}");
    let (status, _) = fixture.pull(json!({ "type": "all", "projectId": fixture.project })).await;
    assert_eq!(status, 422, "a scope has no other fields");
}
