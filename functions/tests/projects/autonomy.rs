//! Autonomy that an agent proposes, and a person grants or declines (decisions 68 and 81).

use pilothouse_domain::Project;

use super::*;
use crate::authorization::call;

const INSTALL: &str = "npm install left-pad";

impl ProjectFixture {
    /// An agent that asks before each command, and proposes autonomy after one approval.
    async fn ready_to_propose() -> Self {
        let fixture = Self::working().await;
        let orchestrator = json!({ "mode": "orchestrator", "projectId": fixture.project });
        assert_eq!(fixture.send("PUT", "/api/control-mode", orchestrator).await.0, 200);
        let policy = json!({ "proposeAt": 0.2, "revokeBelow": 0.1 });
        fixture
            .configure(json!({
                "escalation": { "orchestrator": { "alwaysEscalate": ["deploy"] } },
                "trust": { "config": { "autonomy": policy } },
            }))
            .await;
        fixture
    }

    /// A person approves a call with this number. Returns the kind of its action.
    async fn approve(&self, number: u64) -> Value {
        let id = format!("t{number}");
        let verdict = self.verdict(&call(&id, "Bash", INSTALL)).await;
        let asked = self.ask_permission(number, &id, "Bash", verdict).await;
        self.resolve(&id, json!({ "resolutionType": "approve" })).await;
        self.react().await;
        asked["verdict"]["effect"]["actionKind"].clone()
    }

    async fn proposing() -> (Self, Value) {
        let fixture = Self::ready_to_propose().await;
        let kind = fixture.approve(1).await;
        let decision = fixture.only("").await;
        assert_eq!((&decision["kind"], &decision["actionKind"]), (&json!("autonomy"), &kind));
        (fixture, decision)
    }

    async fn next_verdict(&self, id: &str) -> Value {
        let (status, body) = self.ask(self.run().await, &call(id, "Bash", INSTALL)).await;
        assert_eq!(status, 200, "{body}");
        body["verdict"].clone()
    }
}

#[tokio::test]
async fn granted_autonomy_lets_the_agent_act_without_asking() {
    let (fixture, decision) = ProjectFixture::proposing().await;
    assert_eq!((&decision["severity"], decision.get("sessionId")), (&json!("low"), None));
    assert_eq!(decision["project"]["agentId"], json!(fixture.agent));
    assert_eq!(decision["verdicts"], json!({ "approved": 1, "decided": 1 }));
    assert_eq!(fixture.next_verdict("t2").await, "ask", "a proposal grants nothing");
    let approve = json!({ "resolutionType": "approve" });
    let (status, body) = fixture.resolve_decision(&decision, approve.clone()).await;
    assert_eq!((status, &body["state"]), (200, &json!("resolved")), "{body}");
    assert_eq!(fixture.next_verdict("t3").await, "allow");
    let log = fixture.log().await;
    let verdict = log.iter().find(|entry| entry["toolCallId"] == "t3").unwrap();
    assert_eq!(verdict["rule"], json!({ "type": "autonomy", "actionKind": decision["actionKind"] }));
    assert!(log.iter().any(|entry| entry["decisionId"] == decision["id"]), "the answer is logged");
    let (status, body) = fixture.resolve_decision(&decision, approve).await;
    assert_eq!((status, &body["code"]), (409, &json!("decision-over")));
}

#[tokio::test]
async fn declined_autonomy_needs_twice_as_many_verdicts() {
    let (fixture, declined) = ProjectFixture::proposing().await;
    let (status, body) = fixture.resolve_decision(&declined, json!({ "resolutionType": "reject" })).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(fixture.next_verdict("t0").await, "ask");
    fixture.react().await;
    assert!(fixture.inbox("").await.is_empty());
    fixture.approve(2).await;
    assert_ne!(fixture.only("").await["id"], declined["id"]);
}

#[tokio::test]
async fn concurrent_messages_propose_autonomy_once() {
    let fixture = ProjectFixture::ready_to_propose().await;
    let verdict = fixture.verdict(&call("t1", "Bash", INSTALL)).await;
    fixture.ask_permission(1, "t1", "Bash", verdict).await;
    fixture.resolve("t1", json!({ "resolutionType": "approve" })).await;
    join_all((0..8).map(|_| fixture.react())).await;
    assert_eq!(fixture.inbox("?kind=autonomy").await.len(), 1);
}

#[tokio::test]
async fn brake_withdraws_the_proposal() {
    let (fixture, proposed) = ProjectFixture::proposing().await;
    fixture.pull_and_release().await;
    fixture.react().await;
    let cancelled = fixture.only("?state=cancelled").await;
    assert_eq!((&cancelled["id"], &cancelled["reason"]), (&proposed["id"], &json!("proposal_withdrawn")));
    let (status, _) = fixture.resolve_decision(&proposed, json!({ "resolutionType": "approve" })).await;
    assert_eq!(status, 409);
}

#[tokio::test]
async fn removed_policy_withdraws_the_proposal() {
    let (fixture, proposed) = ProjectFixture::proposing().await;
    fixture.configure(json!({ "trust": { "config": {} } })).await;
    let project = fixture.app.store.any_aggregate::<Project>(fixture.project).await.unwrap().unwrap();
    fixture.react_to("project", &fixture.project.to_string(), project.version).await;
    assert_eq!(fixture.only("?state=cancelled").await["id"], proposed["id"]);
}
