//! The spending cap of a project (decision 78).

use pilothouse_domain::session::UsageReport;
use pilothouse_domain::value::TokenUsage;
use pilothouse_domain::{MeterId, Project, ProjectAccount};

use super::*;

impl ProjectFixture {
    /// The session has spent this much in total.
    pub(super) async fn spend(&self, usd: &str) {
        self.use_model("model", usd, TokenUsage::default()).await;
    }

    /// The session has used this much of a model in total.
    pub(super) async fn use_model(&self, model: &str, usd: &str, tokens: TokenUsage) {
        let report = UsageReport {
            meter: MeterId::parse("m").unwrap(),
            model: model.to_owned(),
            subagent: None,
            cost: usd.parse().unwrap(),
            tokens,
            context_window: None,
        };
        self.observe(AgentFact::Used(report)).await;
    }

    /// Sets the cap of the project, with the reaction.
    async fn cap(&self, cap: Value) {
        let path = format!("/api/projects/{}", self.project);
        let (status, body) = self.send("PATCH", &path, json!({ "spendingCap": cap })).await;
        assert_eq!(status, 200, "{body}");
        let project = self.app.store.any_aggregate::<Project>(self.project).await.unwrap().unwrap();
        self.react_to("project", &self.project.to_string(), project.version).await;
    }

    async fn account(&self) -> Option<(ProjectAccount, u64)> {
        let loaded = self.app.store.any_aggregate::<ProjectAccount>(self.project).await.unwrap();
        loaded.map(|loaded| (loaded.value, loaded.version))
    }

    async fn drawn(&self) -> String {
        self.account().await.unwrap().0.drawn_usd().to_string()
    }

    async fn spending(&self) -> Value {
        let (_, view) = self.send("GET", &format!("/api/projects/{}", self.project), Value::Null).await;
        view["spending"].clone()
    }

    async fn brakes(&self) -> Vec<Value> {
        let (_, page) = self.send("GET", "/api/brakes", Value::Null).await;
        page["items"].as_array().unwrap().clone()
    }

    /// A project whose only agent has spent more than the cap of 2 dollars.
    async fn exhausted() -> Self {
        let fixture = Self::working().await;
        fixture.cap(json!({ "usd": "2" })).await;
        fixture.spend("2.5").await;
        fixture.react().await;
        fixture
    }
}

#[tokio::test]
async fn projects_without_a_cap_have_no_account() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("1").await;
    fixture.react().await;
    assert_eq!(fixture.account().await, None);
    assert_eq!(fixture.spending().await, Value::Null);
}

#[tokio::test]
async fn slices_are_drawn_once_in_any_order_of_messages() {
    let fixture = ProjectFixture::working().await;
    fixture.cap(json!({ "usd": "10" })).await;
    for usd in ["0.1", "0.2", "0.9"] {
        fixture.spend(usd).await;
    }
    join_all((0..4).map(|_| fixture.react())).await;
    // 0.9 dollars, and a tenth of the 9.1 dollars that are left.
    let (account, version) = fixture.account().await.unwrap();
    assert_eq!(account.drawn_usd().to_string(), "1.81");
    fixture.spend("1.7").await;
    fixture.react_backwards().await;
    assert_eq!(fixture.account().await.unwrap(), (account, version), "the slice covers it");
    fixture.spend("1.81").await;
    fixture.react().await;
    assert_eq!(fixture.drawn().await, "2.629");
}

#[tokio::test]
async fn end_of_a_session_returns_what_it_did_not_use() {
    let fixture = ProjectFixture::working().await;
    fixture.cap(json!({ "usd": "10" })).await;
    fixture.spend("1").await;
    fixture.react().await;
    assert_eq!(fixture.drawn().await, "1.9");
    fixture.fail().await;
    fixture.react().await;
    fixture.react_backwards().await;
    assert_eq!(fixture.drawn().await, "1");
}

#[tokio::test]
async fn new_cap_counts_earlier_spend() {
    let fixture = ProjectFixture::working().await;
    fixture.spend("1").await;
    fixture.react().await;
    fixture.cap(json!({ "usd": "10" })).await;
    assert_eq!(fixture.drawn().await, "1.9");
    fixture.cap(Value::Null).await;
    fixture.spend("4").await;
    fixture.react().await;
    assert_eq!(fixture.spending().await, Value::Null);
    fixture.cap(json!({ "usd": "3" })).await;
    assert_eq!(fixture.spending().await["overshootUsd"], "1");
    assert_eq!(fixture.brakes().await.len(), 1);
}

#[tokio::test]
async fn cap_below_the_spend_brakes_although_a_slice_is_left() {
    let fixture = ProjectFixture::working().await;
    fixture.cap(json!({ "usd": "100" })).await;
    fixture.spend("4").await;
    fixture.react().await;
    assert_eq!(fixture.drawn().await, "13.6");
    fixture.cap(json!({ "usd": "3" })).await;
    assert_eq!(fixture.spending().await["overshootUsd"], "1");
    assert_eq!(fixture.brakes().await.len(), 1);
}

#[tokio::test]
async fn refused_slice_brakes_the_project_once_and_costs_no_trust() {
    let fixture = ProjectFixture::exhausted().await;
    fixture.react_backwards().await;
    let brakes = fixture.brakes().await;
    assert_eq!(brakes.len(), 1, "{brakes:#?}");
    let scope = json!({ "type": "project", "projectId": fixture.project });
    assert_eq!((&brakes[0]["initiatedBy"], &brakes[0]["scope"]), (&json!("system"), &scope));
    let brake = brakes[0]["id"].as_str().unwrap();
    fixture.react_to("brake", brake, 1).await;
    fixture.react().await;
    assert_eq!(fixture.score().await, "50");
    let (_, session) = fixture.send("GET", &fixture.session_path(""), Value::Null).await;
    assert_eq!(session["status"], "Pausing");

    let spending = fixture.spending().await;
    assert_eq!((&spending["overshootUsd"], &spending["brakeId"]), (&json!("0.5"), &json!(brake)));
    assert!(spending["advice"].as_str().unwrap().starts_with("raise `spendingCap`"), "{spending}");
    fixture.spend("2.6").await;
    fixture.react().await;
    assert_eq!(fixture.spending().await["overshootUsd"], "0.6");
    assert_eq!(fixture.brakes().await.len(), 1);
}

#[tokio::test]
async fn no_agent_starts_while_the_account_is_empty() {
    let fixture = ProjectFixture::exhausted().await;
    let agent = json!({
        "projectId": fixture.project,
        "brief": { "role": "Tester", "workstream": "api" },
        "objective": "Test it", "workingDirectory": "/w", "budgetCapUsd": "5",
    });
    let (status, body) = fixture.send("POST", "/api/agents/spawn", agent.clone()).await;
    assert_eq!((status, &body["code"]), (409, &json!("spending-cap-reached")), "{body}");
    fixture.cap(json!({ "usd": "20" })).await;
    let (status, body) = fixture.send("POST", "/api/agents/spawn", agent).await;
    assert_eq!((status, &body["session"]["queuedReason"]), (202, &json!("braked")), "{body}");
}

#[tokio::test]
async fn raised_cap_keeps_the_brake_and_an_unraised_one_brakes_again() {
    let fixture = ProjectFixture::exhausted().await;
    let release = async |brake: &Value| {
        let path = format!("/api/brakes/{}/release", brake["id"].as_str().unwrap());
        assert_eq!(fixture.send("POST", &path, json!({})).await.0, 200);
    };
    release(&fixture.brakes().await[0]).await;
    fixture.spend("2.6").await;
    fixture.react().await;
    let brakes = fixture.brakes().await;
    let in_force: Vec<_> = brakes.iter().filter(|brake| brake["released"].is_null()).collect();
    assert_eq!((brakes.len(), in_force.len()), (2, 1), "{brakes:#?}");
    fixture.cap(json!({ "usd": "20" })).await;
    let spending = fixture.spending().await;
    assert_eq!((&spending["isExhausted"], &spending["brakeId"]), (&json!(false), &in_force[0]["id"]));
    assert!(spending["advice"].as_str().unwrap().starts_with("release the brake"), "{spending}");
    release(in_force[0]).await;
    fixture.spend("2.7").await;
    fixture.react().await;
    assert_eq!(fixture.spending().await.get("brakeId"), None);
}

#[tokio::test]
async fn brakes_of_a_project_are_in_its_decision_log() {
    let fixture = ProjectFixture::exhausted().await;
    let system = fixture.brakes().await[0]["id"].as_str().unwrap().to_owned();
    fixture.react_to("brake", &system, 1).await;
    let scope = json!({ "type": "agent", "agentId": fixture.agent });
    let body = json!({ "scope": scope, "reason": "Stop" });
    let (_, pulled) = fixture.send("POST", "/api/brake", body).await;
    let own = pulled["id"].as_str().unwrap().to_owned();
    fixture.react_to("brake", &own, 1).await;
    fixture.send("POST", &format!("/api/brakes/{own}/release"), json!({})).await;
    fixture.react_to("brake", &own, 2).await;
    fixture.react_to("brake", &own, 2).await;
    let path = format!("/api/projects/{}/decision-log", fixture.project);
    let (_, log) = fixture.send("GET", &path, Value::Null).await;
    let mut brakes: Vec<_> =
        log["items"].as_array().unwrap().iter().filter(|it| it["type"] == "brake").collect();
    brakes.sort_by_key(|it| (it["by"].to_string(), it["action"].to_string()));
    let said: Vec<_> =
        brakes.iter().map(|it| (it["by"].as_str().unwrap(), it["action"].as_str().unwrap())).collect();
    assert_eq!(said, [("owner", "pulled"), ("owner", "released"), ("system", "pulled")]);
    assert_eq!((&brakes[0]["agentId"], &brakes[0]["reason"]), (&json!(fixture.agent), &json!("Stop")));
    assert_eq!((&brakes[0]["scope"], &brakes[0]["brakeId"]), (&scope, &json!(own)));
}
