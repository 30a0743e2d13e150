//! Injections of knowledge into the sessions of agents (S2, "`ContextInjection` timing policy"; decision 89).

use std::time::Duration;

use pilothouse_domain::queue::SessionMessage;
use pilothouse_domain::session::{AgentFact, UsageReport};
use pilothouse_domain::value::{Capabilities, ContextWindowSnapshot, SessionOutcome, TokenUsage};
use pilothouse_domain::{AgentSessionId, MessageId, MeterId, TurnId, Usd};
use pilothouse_functions::events::clock;
use serde_json::{Value, json};

use crate::artifacts::Artifacts;
use crate::fixture::{ProjectFixture, permission};

const MINUTE: Duration = Duration::from_mins(1);

impl ProjectFixture {
    async fn view(&self) -> Value {
        self.send("GET", &format!("/api/agents/{}", self.agent), Value::Null).await.1
    }

    pub(crate) async fn pending(&self) -> Option<SessionMessage> {
        let loaded = self.app.store.conversation(self.session).await.unwrap().unwrap();
        loaded.conversation.queue.pending_injection().cloned()
    }

    /// A person uploads an artifact. Its reactions run. Returns its id.
    async fn upload_artifact(&self, workstream: &str, path: &str) -> String {
        let upload = json!({ "path": path, "kind": "document", "workstream": workstream, "text": path });
        let (status, artifact) = self.send("POST", "/api/artifacts", upload).await;
        assert_eq!(status, 201, "{artifact}");
        let id = artifact["artifactId"].as_str().unwrap().to_owned();
        self.react_to("artifact", &id, 1).await;
        id
    }

    /// A person uploads an artifact and approves it. Its reactions run.
    async fn approve_artifact_of(&self, workstream: &str, path: &str) {
        let id = self.upload_artifact(workstream, path).await;
        let (status, body) = self.send("POST", &format!("/api/artifacts/{id}/approve"), json!({})).await;
        assert_eq!(status, 200, "{body}");
        self.react_to("artifact", &id, 2).await;
    }

    async fn approve_artifact(&self, path: &str) {
        self.approve_artifact_of("api", path).await;
    }

    /// The agent receives the injection that waits with a message of its owner.
    async fn deliver(&self) -> MessageId {
        let pending = self.pending().await.unwrap().message_id;
        self.complete_turn(false).await;
        let (status, sent) =
            self.send("POST", &self.session_path("/messages/queue"), json!({ "content": "Go on" })).await;
        assert_eq!(status, 201, "{sent}");
        let message = sent["message"]["messageId"].as_str().unwrap().parse().unwrap();
        self.observe(AgentFact::MessageInjected(message)).await;
        self.react().await;
        pending
    }

    /// The context window of the agent has this many tokens.
    async fn fill_context(&self, tokens: u64) {
        let usage = TokenUsage { input_tokens: tokens, ..TokenUsage::default() };
        let window =
            ContextWindowSnapshot { usage, model_context_limit: 200_000, recorded_at: self.app.now() };
        let report = UsageReport {
            meter: MeterId::parse("m").unwrap(),
            model: "model".to_owned(),
            subagent: None,
            cost: Usd::default(),
            tokens: TokenUsage::default(),
            context_window: Some(window),
        };
        self.observe(AgentFact::Used(report)).await;
    }

    async fn timers(&self) -> usize {
        let far = self.app.now() + MINUTE * 10_000;
        let due = self.app.store.due_aggregates(far, 10).await.unwrap();
        due.iter().filter(|(aggregate, _)| aggregate.kind == "injections").count()
    }
}

#[tokio::test]
async fn approved_artifact_is_injected_once() {
    let fixture = ProjectFixture::working().await;
    fixture.approve_artifact("one.md").await;
    let pending = fixture.pending().await.unwrap();
    assert!(pending.content.as_str().contains("\"one.md\", version 1, of the workstream api was approved"));
    fixture.approve_artifact("two.md").await;
    let replaced = fixture.pending().await.unwrap();
    assert!(replaced.message_id != pending.message_id, "the newest one waits");
    assert!(["one.md", "two.md"].iter().all(|name| replaced.content.as_str().contains(name)));
    fixture.react().await;
    assert_eq!(fixture.pending().await, Some(replaced));
}

#[tokio::test]
async fn delivered_injection_is_counted_once() {
    let fixture = ProjectFixture::working().await;
    assert_eq!(fixture.view().await.get("contextUse"), None);
    fixture.approve_artifact("one.md").await;
    fixture.deliver().await;
    fixture.react().await;
    let used = fixture.view().await["contextUse"].clone();
    assert_eq!(used["injections"], 1, "{used}");
    assert!(used["estimatedTokens"].as_u64().unwrap() > 20 && used["lastAt"].is_string(), "{used}");
    // The agent knows the rest.
    fixture.advance(MINUTE * 6);
    fixture.approve_artifact("two.md").await;
    let delta = fixture.pending().await.unwrap();
    assert!(delta.content.as_str().contains("two.md") && !delta.content.as_str().contains("one.md"));
}

#[tokio::test]
async fn next_injection_follows_after_the_cooldown() {
    let fixture = ProjectFixture::working().await;
    fixture.approve_artifact("one.md").await;
    fixture.deliver().await;
    fixture.approve_artifact("two.md").await;
    assert_eq!(fixture.pending().await, None);
    fixture.advance(MINUTE * 4);
    clock::tick(&fixture.app).await.unwrap();
    assert_eq!(fixture.pending().await, None);
    fixture.advance(MINUTE * 2);
    clock::tick(&fixture.app).await.unwrap();
    assert!(fixture.pending().await.unwrap().content.as_str().contains("two.md"));
}

#[tokio::test]
async fn injection_waits_until_the_context_budget_has_room() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(MINUTE);
    let policy = json!({ "historyPolicy": "full", "contextBudgetTokens": 1_000 });
    let (status, body) = fixture.change_brief(json!({ "sessionPolicy": policy })).await;
    assert_eq!(status, 200, "{body}");
    fixture.react_to_agent().await;
    fixture.deliver().await;
    fixture.advance(MINUTE * 6);
    fixture.fill_context(990).await;
    fixture.approve_artifact("one.md").await;
    assert_eq!(fixture.pending().await, None);
    fixture.fill_context(200).await;
    fixture.approve_artifact("two.md").await;
    let pending = fixture.pending().await.unwrap();
    assert!(["one.md", "two.md"].iter().all(|name| pending.content.as_str().contains(name)));
}

#[tokio::test]
async fn brief_without_events_keeps_approvals_from_its_agent() {
    let fixture = ProjectFixture::working().await;
    let policy = json!({ "reactiveEvents": [], "periodicIntervalMinutes": null, "stalenessThreshold": null });
    let (status, body) = fixture.change_brief(json!({ "contextInjectionPolicy": policy })).await;
    assert_eq!(status, 200, "{body}");
    let stored = &body["brief"]["contextInjectionPolicy"];
    assert_eq!((&stored["periodicIntervalMinutes"], &stored["cooldownMinutes"]), (&Value::Null, &json!(5)));
    fixture.approve_artifact("one.md").await;
    assert_eq!(fixture.pending().await, None);
}

#[tokio::test]
async fn bad_policy_names_every_violation() {
    let fixture = ProjectFixture::working().await;
    let policy = json!({ "periodicIntervalMinutes": 0, "maxInjectionsPerHour": 100 });
    let (status, body) = fixture.change_brief(json!({ "contextInjectionPolicy": policy })).await;
    let fields: Vec<_> = body["violations"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    let path = |field: &str| format!("contextInjectionPolicy.{field}");
    assert_eq!((status, fields.len()), (422, 2), "{body}");
    assert_eq!(
        (fields[0], fields[1]),
        (&json!(path("periodicIntervalMinutes")), &json!(path("maxInjectionsPerHour")))
    );
}

#[tokio::test]
async fn changed_brief_reaches_the_running_agent() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(MINUTE);
    let (_, view) = fixture.change_brief(json!({ "description": "Paint it blue" })).await;
    assert_eq!(view["briefSync"], "pending");
    fixture.react_to_agent().await;
    let pending = fixture.pending().await.unwrap();
    assert!(pending.content.as_str().contains("Paint it blue"), "{}", pending.content);
    fixture.react_to_agent().await;
    assert_eq!(fixture.pending().await, Some(pending));
    fixture.deliver().await;
    assert_eq!(fixture.view().await["briefSync"], "synced");
}

#[tokio::test]
async fn changed_project_brief_reaches_the_running_agent() {
    let fixture = ProjectFixture::working().await;
    fixture.advance(MINUTE);
    let project = format!("/api/projects/{}", fixture.project);
    let (status, body) = fixture.send("PATCH", &project, json!({ "goals": ["Sell tea"] })).await;
    assert_eq!(status, 200, "{body}");
    let sequence = body["revision"].as_u64().unwrap();
    for _ in 0..2 {
        fixture.react_to("project", &fixture.project.to_string(), sequence).await;
    }
    assert_eq!(fixture.view().await["briefSync"], "pending");
    assert!(fixture.pending().await.unwrap().content.as_str().contains("Sell tea"));
    fixture.deliver().await;
    assert_eq!(fixture.view().await["briefSync"], "synced");
}

#[tokio::test]
async fn resting_agents_have_no_timer() {
    let fixture = ProjectFixture::spawned().await;
    fixture.react().await;
    assert_eq!(fixture.timers().await, 0, "not before the first turn");
    fixture.start_turn().await;
    fixture.react().await;
    assert_eq!(fixture.timers().await, 1);
    fixture.complete_turn(false).await;
    fixture.react().await;
    fixture.advance(MINUTE * 6);
    clock::tick(&fixture.app).await.unwrap();
    assert_eq!(fixture.timers().await, 0);
    assert_eq!(fixture.pending().await, None);
}

#[tokio::test]
async fn working_agent_is_updated_regularly() {
    let fixture = ProjectFixture::working().await;
    for _ in 0..4 {
        fixture.advance(MINUTE * 5 + Duration::from_secs(1));
        let ledger = async || fixture.app.store.injection_ledger(fixture.agent).await.unwrap().value;
        assert!(ledger().await.due_at().is_some_and(|at| at <= fixture.app.now()));
        pilothouse_functions::reactions::injections::inject_due(&fixture.app, fixture.agent).await.unwrap();
    }
    assert!(fixture.pending().await.unwrap().content.as_str().contains("This is a regular update."));
}

/// The events of other agents of its workstream count. In the mode adaptive, ten are enough.
#[tokio::test]
async fn agent_that_missed_many_events_is_updated() {
    let fixture = ProjectFixture::working().await;
    let other: AgentSessionId = fixture.second_agent("Tester").await.parse().unwrap();
    fixture.observe_in(other, AgentFact::SidecarReady(Capabilities::default())).await;
    let missed = async || fixture.app.store.session(other).await.unwrap().unwrap().journal_sequence();
    let check = async || {
        fixture.advance(MINUTE * 5 + Duration::from_secs(1));
        pilothouse_functions::reactions::injections::inject_due(&fixture.app, fixture.agent).await.unwrap();
        fixture.pending().await
    };
    assert!(missed().await < 10);
    assert_eq!(check().await, None, "it missed few events");
    for n in 0..5 {
        let turn: TurnId = format!("t{n}").parse().unwrap();
        fixture.observe_in(other, AgentFact::TurnStarted { turn: turn.clone(), message: None }).await;
        let outcome = SessionOutcome::Completed;
        fixture.observe_in(other, AgentFact::TurnCompleted { turn, output: None, outcome }).await;
    }
    assert!(missed().await >= 10);
    let pending = check().await.unwrap();
    let text = pending.content.as_str();
    assert!(text.contains("Much happened in your project since the last update."), "{text}");
}

#[tokio::test]
async fn released_brake_informs_the_agent() {
    let fixture = ProjectFixture::working().await;
    fixture.pull_and_release().await;
    fixture.react().await;
    assert!(fixture.pending().await.unwrap().content.as_str().contains("emergency brake"));
}

#[tokio::test]
async fn decision_informs_the_other_agents_only() {
    let fixture = ProjectFixture::working().await;
    let other = fixture.second_agent("Tester").await.parse().unwrap();
    fixture.observe(permission("r1")).await;
    let decision = fixture.only("").await;
    let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
    let (status, body) = fixture.send("POST", &path, json!({ "resolutionType": "approve" })).await;
    assert_eq!(status, 202, "{body}");
    fixture.react().await;
    assert_eq!(fixture.pending().await, None);
    let informed = fixture.app.store.conversation(other).await.unwrap().unwrap().conversation;
    let pending = informed.queue.pending_injection().unwrap();
    assert!(pending.content.as_str().contains("a decision about the workstream api"), "{}", pending.content);
}

#[tokio::test]
async fn severe_issue_informs_agents_whose_policy_lists_it() {
    let fixture = ProjectFixture::working().await;
    let report = async |title: &str, severity: &str| {
        let body = json!({
            "title": title, "description": "Two units", "category": "contradiction", "severity": severity,
            "affectedWorkstreams": ["api"],
        });
        let (status, issue) = fixture.send("POST", "/api/coherence", body).await;
        assert_eq!(status, 201, "{issue}");
        fixture.react_to("coherence-issue", issue["id"].as_str().unwrap(), 1).await;
    };
    report("Units differ", "critical").await;
    assert_eq!(fixture.pending().await, None, "the mode adaptive does not list issues");
    let mode = json!({ "projectId": fixture.project, "mode": "orchestrator" });
    assert_eq!(fixture.send("PUT", "/api/control-mode", mode).await.0, 200);
    report("Names differ", "medium").await;
    assert_eq!(fixture.pending().await, None);
    report("Taxes differ", "high").await;
    let pending = fixture.pending().await.unwrap();
    let text = pending.content.as_str();
    assert!(text.contains("A coherence issue (high, contradiction) concerns the workstream api."), "{text}");
    assert!(text.contains("Taxes differ"), "{text}");
}

#[tokio::test]
async fn new_version_informs_agents_whose_policy_lists_it() {
    let fixture = ProjectFixture::working().await;
    fixture.upload_artifact("api", "one.md").await;
    assert_eq!(fixture.pending().await, None, "the mode adaptive does not list new versions");
    let mode = json!({ "projectId": fixture.project, "mode": "orchestrator" });
    assert_eq!(fixture.send("PUT", "/api/control-mode", mode).await.0, 200);
    fixture.upload_artifact("api", "two.md").await;
    let pending = fixture.pending().await.unwrap();
    let text = pending.content.as_str();
    assert!(text.contains("\"two.md\" of the workstream api has the new version 1"), "{text}");
}

#[tokio::test]
async fn agent_is_not_informed_of_what_it_may_not_read() {
    let artifacts = Artifacts::new().await;
    let fixture = &artifacts.fixture;
    fixture.approve_artifact_of("docs", "guide.md").await;
    assert_eq!(fixture.pending().await, None);
    fixture.approve_artifact_of("api", "orders.md").await;
    let pending = fixture.pending().await.unwrap();
    let text = pending.content.as_str();
    assert!(text.contains("orders.md") && !text.contains("guide.md"), "{text}");
}

#[tokio::test]
async fn completed_agent_informs_agents_whose_policy_lists_it() {
    const DECIDED: &str = "a decision about the workstream api";
    const COMPLETED: &str = "\"Builder\" of the workstream api completed";
    for (events, is_approved, informed_of) in [
        (json!(["decision_resolved", "agent_completed"]), false, vec![COMPLETED]),
        (json!(["decision_resolved", "agent_completed"]), true, vec![DECIDED, COMPLETED]),
        (json!(["agent_completed"]), true, vec![COMPLETED]),
    ] {
        let fixture = ProjectFixture::working().await;
        let policy = json!({ "reactiveEvents": events });
        let body = json!({
            "brief": { "role": "Tester", "workstream": "api", "contextInjectionPolicy": policy },
            "objective": "Test it", "workingDirectory": "/w2", "budgetCapUsd": "5",
        });
        let (status, spawned) = fixture.send("POST", "/api/agents/spawn", body).await;
        assert_eq!(status, 201, "{spawned}");
        let tester = spawned["session"]["id"].as_str().unwrap().parse().unwrap();
        fixture.observe_in(tester, AgentFact::SidecarReady(Capabilities::default())).await;
        let turn = "t".parse().unwrap();
        fixture.observe_in(tester, AgentFact::TurnStarted { turn, message: None }).await;
        fixture.complete_turn(is_approved).await;
        let (action, body) = if is_approved {
            let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
            ("/approve", json!({ "outputId": session.output().unwrap().output_id }))
        } else {
            ("/close", json!({}))
        };
        let (status, body) = fixture.send("POST", &fixture.session_path(action), body).await;
        assert_eq!(status, 200, "{body}");
        fixture.react().await;
        let informed = fixture.app.store.conversation(tester).await.unwrap().unwrap().conversation;
        let text = informed.queue.pending_injection().unwrap().content.as_str();
        let found: Vec<_> = [DECIDED, COMPLETED].into_iter().filter(|part| text.contains(part)).collect();
        assert_eq!(found, informed_of, "{text}");
    }
}
