//! Decisions that no session guards (decision 81): orphans, releases of brakes and recoveries, by people and by the clock.

use std::time::Duration;

use pilothouse_domain::journal::Cause;
use pilothouse_domain::value::Capabilities;
use pilothouse_domain::{AgentSessionId, SessionChain, SessionChainId, ToolCallId};
use pilothouse_functions::events::clock;
use pilothouse_store::Commit;
use uuid::Uuid;

use super::*;
use crate::coherence::proposes;

fn asks(request: &str) -> AgentFact {
    AgentFact::QuestionAsked {
        request: ToolCallId::parse(request).unwrap(),
        questions: vec![serde_json::from_value(json!({ "question": "Which store?" })).unwrap()],
        approval: None,
        proposal: None,
        timeout: None,
    }
}

impl ProjectFixture {
    pub(crate) async fn configure(&self, change: Value) {
        let path = format!("/api/projects/{}", self.project);
        let (status, body) = self.send("PATCH", &path, change).await;
        assert_eq!(status, 200, "{body}");
    }

    pub(crate) async fn process_deadlines(&self) {
        clock::tick(&self.app).await.unwrap();
    }

    pub(crate) async fn inbox(&self, query: &str) -> Vec<Value> {
        let (_, page) = self.send("GET", &format!("/api/decisions{query}"), Value::Null).await;
        page["items"].as_array().unwrap().clone()
    }

    /// The only decision with this query.
    pub(crate) async fn only(&self, query: &str) -> Value {
        let items = self.inbox(query).await;
        assert_eq!(items.len(), 1, "{items:#?}");
        items[0].clone()
    }

    pub(crate) async fn resolve_decision(&self, decision: &Value, resolution: Value) -> (u16, Value) {
        let path = format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap());
        self.send("POST", &path, resolution).await
    }

    /// A killed agent that had asked for permission and asked a question.
    async fn killed(policy: Value) -> Self {
        let fixture = Self::working().await;
        fixture.configure(json!({ "orphanedDecisions": { "adaptive": policy } })).await;
        fixture.observe(permission("p")).await;
        fixture.observe(asks("q")).await;
        let (status, body) = fixture.send("POST", &fixture.session_path("/cancel"), json!({})).await;
        assert_eq!(status, 202, "{body}");
        fixture
    }

    /// Another working agent of the project. Returns its session.
    pub(crate) async fn second_agent(&self, role: &str) -> String {
        self.agent_in("api", role).await
    }

    /// Spawns an agent in a workstream. Returns its session.
    async fn agent_in(&self, workstream: &str, role: &str) -> String {
        let agent = json!({
            "projectId": self.project, "brief": { "role": role, "workstream": workstream },
            "objective": "Build it", "workingDirectory": "/w", "budgetCapUsd": "5",
        });
        let (_, spawned) = self.send("POST", "/api/agents/spawn", agent).await;
        spawned["session"]["id"].as_str().unwrap().to_owned()
    }

    async fn waiting_messages(&self, session: &str) -> String {
        let loaded = self.app.store.conversation(session.parse().unwrap()).await.unwrap().unwrap();
        loaded.conversation.queue.messages().iter().map(|it| it.content.to_string()).collect()
    }

    async fn agent_status(&self) -> String {
        let (_, agent) = self.send("GET", &format!("/api/agents/{}", self.agent), Value::Null).await;
        agent["status"].as_str().unwrap().to_owned()
    }

    async fn assert_clock_is_stopped(&self) {
        let before = self.tick().await;
        self.advance(Duration::from_mins(1));
        assert_eq!(self.tick().await, before);
    }

    pub(crate) async fn session_status(&self) -> String {
        self.app.store.session(self.session).await.unwrap().unwrap().status().to_string()
    }

    /// An agent whose process died.
    async fn crashed(policy: Value) -> Self {
        let fixture = Self::working().await;
        fixture.configure(json!({ "crashRecovery": policy })).await;
        fixture.end_run().await;
        fixture.react().await;
        fixture
    }

    /// An agent with an exhausted context, whose chain has as many sessions as it can have.
    async fn with_full_chain() -> (Self, SessionChainId) {
        let fixture = Self::working().await;
        fixture.observe(AgentFact::ContextExhausted).await;
        let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
        let id = session.chain_id().unwrap();
        fixture.fill_chain(id).await;
        fixture.end_run().await;
        fixture.react().await;
        (fixture, id)
    }

    /// The agent works in the second session of its chain.
    async fn continued() -> Self {
        let mut fixture = Self::working().await;
        fixture.observe(AgentFact::ContextExhausted).await;
        fixture.end_run().await;
        fixture.react().await;
        fixture.session = fixture.loaded_agent().await.value.current_session_id();
        fixture.react().await;
        fixture.start_turn().await;
        fixture
    }

    /// Gives a chain as many sessions as it can have. The last one is that of the fixture.
    async fn fill_chain(&self, id: SessionChainId) {
        let mut loaded = self.app.store.any_aggregate::<SessionChain>(id).await.unwrap().unwrap();
        let chained = |position: usize, id: String| json!({ "sessionId": id, "position": position, "joinedAt": "2026-05-01T12:00:00.000Z" });
        let others: Vec<_> = (2..SessionChain::MAX_SESSIONS)
            .map(|position| chained(position, Uuid::from_u128(position as u128).to_string()))
            .chain([chained(SessionChain::MAX_SESSIONS, self.session.to_string())])
            .collect();
        let mut full = serde_json::to_value(&loaded.value).unwrap();
        full["first"] = chained(1, Uuid::from_u128(1).to_string());
        full["others"] = json!(others);
        loaded.value = serde_json::from_value(full).unwrap();
        let mut commit = Commit::new();
        self.app.record_aggregate(&mut commit, &loaded, Cause::Clock, Vec::new()).unwrap();
        self.app.store.commit(commit).await.unwrap();
    }

    async fn chain_status(&self, chain: SessionChainId) -> String {
        let loaded = self.app.store.any_aggregate::<SessionChain>(chain).await.unwrap().unwrap();
        loaded.value.status().to_string()
    }

    fn recover(option: &str) -> Value {
        json!({ "resolutionType": "choose_option", "chosenOptionId": option })
    }
}

#[tokio::test]
async fn orphans_wait_for_their_grace_period_and_then_for_a_person() {
    let fixture = ProjectFixture::killed(json!({ "default": "triage", "gracePeriodMs": 5000 })).await;
    let orphans = fixture.inbox("").await;
    assert_eq!(orphans.len(), 2);
    assert!(orphans.iter().all(|it| it["state"] == "orphaned" && it["badges"] == json!(["agentKilled"])));
    fixture.process_deadlines().await;
    assert!(fixture.inbox("?state=orphaned").await.iter().all(|it| it["stage"] == "grace"));
    fixture.advance(Duration::from_secs(5));
    fixture.process_deadlines().await;
    let orphans = fixture.inbox("?state=orphaned").await;
    assert!(orphans.iter().all(|it| it["stage"] == "triage"), "{orphans:#?}");
    let call = orphans.iter().find(|it| it["kind"] == "tool_approval").unwrap();
    let (status, resolved) = fixture.resolve_decision(call, json!({ "resolutionType": "reject" })).await;
    assert_eq!((status, &resolved["state"], &resolved["delivery"]), (200, &json!("resolved"), &Value::Null));
    let (status, over) = fixture.resolve_decision(call, json!({ "resolutionType": "dismiss" })).await;
    assert_eq!((status, &over["code"]), (409, &json!("decision-over")));
    let question = orphans.iter().find(|it| it["kind"] == "question").unwrap();
    let (status, _) = fixture.resolve_decision(question, json!({ "resolutionType": "dismiss" })).await;
    assert_eq!(status, 200);
    assert!(fixture.inbox("").await.is_empty());
    assert_eq!(fixture.inbox("?state=resolved").await.len(), 2);
}

#[tokio::test]
async fn policy_cancels_calls_and_expires_questions() {
    let fixture = ProjectFixture::killed(json!({ "default": "cancel", "gracePeriodMs": 0 })).await;
    fixture.process_deadlines().await;
    let call = fixture.only("?state=auto_resolved").await;
    assert_eq!(call["resolution"], json!({ "resolutionType": "reject" }));
    assert_eq!(call["resolvedBy"], json!({ "type": "orphan_policy" }));
    assert_eq!(fixture.only("?state=expired").await["kind"], "question");
    fixture.react().await;
    assert_eq!(fixture.score().await, "50", "it is not the agent's fault");
}

#[tokio::test]
async fn default_of_the_mode_cancels_calls_and_leaves_questions() {
    let fixture = ProjectFixture::killed(Value::Null).await;
    fixture.process_deadlines().await;
    fixture.advance(Duration::from_secs(30));
    fixture.process_deadlines().await;
    assert_eq!(fixture.only("?state=auto_resolved").await["kind"], "tool_approval");
    assert_eq!(fixture.only("").await["kind"], "question");
}

#[tokio::test]
async fn question_goes_to_an_agent_of_the_same_role_and_calls_do_not() {
    let fixture = ProjectFixture::killed(json!({ "default": "reassign", "gracePeriodMs": 0 })).await;
    fixture.second_agent("Tester").await;
    let session = fixture.second_agent("Builder").await;
    fixture.process_deadlines().await;
    let orphans = fixture.inbox("").await;
    let of_kind = |kind: &str| orphans.iter().find(|it| it["kind"] == kind).unwrap().clone();
    assert_eq!(of_kind("tool_approval")["stage"], "triage");
    let question = of_kind("question");
    assert_eq!(question["stage"], "reassigned");
    let (_, replacement) = fixture.send("GET", &format!("/api/agents/sessions/{session}"), Value::Null).await;
    assert!(replacement["project"]["agentId"].is_string(), "{replacement}");
    assert_eq!(question["reassignedTo"], replacement["project"]["agentId"]);
    assert_eq!(question["project"]["agentId"], json!(fixture.agent), "its origin stays");
    assert!(fixture.waiting_messages(&session).await.contains("Which store?"));
    let answers = json!([{ "question": "Which store?", "answer": "SQLite" }]);
    let answer = json!({ "resolutionType": "answer", "answers": answers });
    let (status, resolved) = fixture.resolve_decision(&question, answer).await;
    assert_eq!((status, &resolved["delivery"]), (200, &json!("message")));
    assert!(fixture.waiting_messages(&session).await.contains("SQLite"));
}

/// S2 "In-flight decisions on agent kill": not for the agent that ended.
#[tokio::test]
async fn choice_counts_for_the_agent_that_took_the_decision_over() {
    let mut fixture = ProjectFixture::working().await;
    let policy = json!({ "default": "reassign", "gracePeriodMs": 0 });
    fixture.configure(json!({ "orphanedDecisions": { "adaptive": policy } })).await;
    fixture.observe(proposes("q", "SQLite", &json!("artifact"))).await;
    let (status, body) = fixture.send("POST", &fixture.session_path("/cancel"), json!({})).await;
    assert_eq!(status, 202, "{body}");
    let replacement: AgentSessionId = fixture.second_agent("Builder").await.parse().unwrap();
    fixture.process_deadlines().await;
    let decision = fixture.only("").await;
    assert_eq!(decision["stage"], "reassigned", "{decision}");
    let choice = json!({ "resolutionType": "choose_option", "chosenOptionId": "SQLite" });
    let (status, body) = fixture.resolve_decision(&decision, choice).await;
    assert_eq!(status, 200, "{body}");
    fixture.react().await;
    fixture.react_of(replacement).await;
    assert_eq!(fixture.score().await, "50");
    fixture.agent = decision["reassignedTo"].as_str().unwrap().parse().unwrap();
    assert_eq!(fixture.score().await, "52");
}

#[tokio::test]
async fn reassignment_without_a_replacement_is_triage() {
    let fixture = ProjectFixture::killed(json!({ "default": "reassign", "gracePeriodMs": 0 })).await;
    fixture.second_agent("Tester").await;
    // An agent of the same role in another workstream is no replacement.
    let workstreams = json!([{ "id": "api", "name": "API" }, { "id": "web", "name": "Web" }]);
    let path = format!("/api/projects/{}", fixture.project);
    let (status, changed) = fixture.send("PATCH", &path, json!({ "workstreams": workstreams })).await;
    assert_eq!(status, 200, "{changed}");
    fixture.agent_in("web", "Builder").await;
    fixture.process_deadlines().await;
    assert!(fixture.inbox("").await.iter().all(|it| it["stage"] == "triage"));
}

#[tokio::test]
async fn wrong_policies_name_every_violation() {
    let fixture = ProjectFixture::spawned().await;
    let orphans = json!({ "default": "triage", "gracePeriodMs": 86_400_001, "perSubtype": { "tool_approval": "reassign" } });
    let conditions = json!({ "minTrustScore": 101, "maxConsecutiveCrashes": 0, "cooldownMs": 3_600_001 });
    let change = json!({
        "orphanedDecisions": { "ecosystem": orphans },
        "crashRecovery": { "autoRestart": true, "autoRestartConditions": conditions },
    });
    let path = format!("/api/projects/{}", fixture.project);
    let (status, refused) = fixture.send("PATCH", &path, change).await;
    assert_eq!(status, 422, "{refused}");
    let mut fields: Vec<_> =
        refused["violations"].as_array().unwrap().iter().map(|it| it["field"].as_str().unwrap()).collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            "crashRecovery.autoRestartConditions.cooldownMs",
            "crashRecovery.autoRestartConditions.maxConsecutiveCrashes",
            "crashRecovery.autoRestartConditions.minTrustScore",
            "orphanedDecisions.ecosystem.gracePeriodMs",
            "orphanedDecisions.ecosystem.perSubtype.tool_approval",
        ]
    );
}

#[tokio::test]
async fn approved_decision_releases_its_brake_once() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(permission("p")).await;
    let brake =
        json!({ "scope": { "type": "all" }, "reason": "Stop", "releaseCondition": { "type": "decision" } });
    let (status, brake) = fixture.send("POST", "/api/brake", brake).await;
    assert_eq!(status, 202, "{brake}");
    let id = brake["id"].as_str().unwrap();
    fixture.react_to("brake", id, 1).await;
    assert_eq!(fixture.only("?state=suspended").await["kind"], "tool_approval");
    let decision = fixture.only("?state=pending").await;
    assert_eq!((&decision["kind"], &decision["id"]), (&json!("brake_release"), &brake["releaseDecisionId"]));
    assert_eq!(decision["sessionId"], Value::Null);

    let approve = || fixture.resolve_decision(&decision, json!({ "resolutionType": "approve" }));
    let mut statuses: Vec<_> =
        join_all([approve(), approve(), approve()]).await.into_iter().map(|(status, _)| status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409]);
    fixture.react_to("brake", id, 2).await;
    let (_, brake) = fixture.send("GET", &format!("/api/brakes/{id}"), Value::Null).await;
    assert_eq!(brake["released"]["by"], "decision");
    let (status, _) = fixture.send("POST", &format!("/api/brakes/{id}/release"), json!({})).await;
    assert_eq!(status, 409);
    let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    assert!(!session.is_held());
}

#[tokio::test]
async fn release_in_another_way_ends_the_decision() {
    let fixture = ProjectFixture::working().await;
    let body =
        json!({ "scope": { "type": "all" }, "reason": "Stop", "releaseCondition": { "type": "decision" } });
    let (_, brake) = fixture.send("POST", "/api/brake", body.clone()).await;
    let decision = fixture.only("").await;
    let path = format!("/api/brakes/{}/release", brake["id"].as_str().unwrap());
    let approve = fixture.resolve_decision(&decision, json!({ "resolutionType": "approve" }));
    let ((resolved, _), (released, _)) = futures_util::join!(approve, fixture.send("POST", &path, json!({})));
    let mut both = [resolved, released];
    both.sort_unstable();
    assert_eq!(both, [200, 409], "the brake is released once");

    let (_, brake) = fixture.send("POST", "/api/brake", body).await;
    let path = format!("/api/brakes/{}/release", brake["id"].as_str().unwrap());
    assert_eq!(fixture.send("POST", &path, json!({})).await.0, 200);
    assert!(fixture.inbox("").await.is_empty());
    let (_, ended) = fixture
        .send("GET", &format!("/api/decisions/{}", brake["releaseDecisionId"].as_str().unwrap()), Value::Null)
        .await;
    assert_eq!((&ended["state"], &ended["reason"]), (&json!("cancelled"), &json!("brake_released")));
}

#[tokio::test]
async fn rejected_release_leaves_the_brake_to_a_person() {
    let fixture = ProjectFixture::working().await;
    let body =
        json!({ "scope": { "type": "all" }, "reason": "Stop", "releaseCondition": { "type": "decision" } });
    let (_, brake) = fixture.send("POST", "/api/brake", body).await;
    let decision = fixture.only("").await;
    let (status, _) = fixture.resolve_decision(&decision, json!({ "resolutionType": "reject" })).await;
    assert_eq!(status, 200);
    let path = format!("/api/brakes/{}", brake["id"].as_str().unwrap());
    assert_eq!(fixture.send("GET", &path, Value::Null).await.1["released"], Value::Null);
    assert_eq!(fixture.send("POST", &format!("{path}/release"), json!({})).await.0, 200);
}

#[tokio::test]
async fn brake_takes_one_release_condition() {
    let fixture = ProjectFixture::spawned().await;
    let brake = |condition: Value, seconds: Value| json!({ "scope": { "type": "all" }, "reason": "Stop", "releaseCondition": condition, "releaseAfterSeconds": seconds });
    let timer = json!({ "type": "timer", "releaseAfterMs": 60_000 });
    let (status, _) = fixture.send("POST", "/api/brake", brake(timer.clone(), json!(60))).await;
    assert_eq!(status, 422);
    let (status, pulled) = fixture.send("POST", "/api/brake", brake(timer, Value::Null)).await;
    assert_eq!(status, 202, "{pulled}");
    assert_eq!(pulled["releaseAt"], "2026-05-01T12:01:00.000Z");
    assert_eq!(pulled["releaseDecisionId"], Value::Null);
    let (status, _) = fixture
        .send("POST", "/api/brake", brake(json!({ "type": "timer", "releaseAfterMs": 0 }), Value::Null))
        .await;
    assert_eq!(status, 422);
}

#[tokio::test]
async fn crash_opens_one_decision_also_when_its_message_repeats() {
    let fixture = ProjectFixture::crashed(Value::Null).await;
    fixture.react_backwards().await;
    let decision = fixture.only("").await;
    assert_eq!((&decision["kind"], &decision["consecutiveCrashes"]), (&json!("crash_recovery"), &json!(1)));
    assert_eq!(decision["automatic"], Value::Null, "a person decides by default");
    let (status, _) = fixture.resolve_decision(&decision, ProjectFixture::recover("resume")).await;
    assert_eq!(status, 200);
    assert_eq!(fixture.session_status().await, "Queued");
    let (status, _) = fixture.resolve_decision(&decision, ProjectFixture::recover("abandon")).await;
    assert_eq!(status, 409, "the first resolution wins");
    fixture.react().await;
    let (_, view) = fixture.send("GET", &fixture.session_path(""), Value::Null).await;
    assert_eq!(view["retryCount"], 1);
}

#[tokio::test]
async fn restart_is_a_new_session_of_the_same_agent() {
    let fixture = ProjectFixture::crashed(Value::Null).await;
    let decision = fixture.only("").await;
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!(status, 200, "{body}");
    let agent = fixture.loaded_agent().await.value;
    assert_ne!(agent.current_session_id(), fixture.session);
    let session = fixture.app.store.session(agent.current_session_id()).await.unwrap().unwrap();
    assert_eq!(session.project().unwrap().agent_id, fixture.agent);
    assert_eq!(session.objective().as_str(), "Build it");
    let (status, refused) = fixture.send("POST", &fixture.session_path("/retry"), json!({})).await;
    assert_eq!((status, &refused["code"]), (409, &json!("continued")));
}

#[tokio::test]
async fn restarted_continuation_goes_on_in_its_chain() {
    let mut fixture = ProjectFixture::working().await;
    fixture.observe(AgentFact::ContextExhausted).await;
    fixture.end_run().await;
    fixture.react().await;
    let current = fixture.loaded_agent().await.value.current_session_id();
    let first = std::mem::replace(&mut fixture.session, current);
    fixture.react().await;
    fixture.start_turn().await;
    fixture.end_run().await;
    fixture.react().await;
    let decision = fixture.only("").await;
    assert_eq!(decision["kind"], "crash_recovery");
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!(status, 200, "{body}");

    let failed = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    let id = failed.chain_id().unwrap();
    let restarted = fixture.loaded_agent().await.value.current_session_id();
    let chain = fixture.app.store.any_aggregate::<SessionChain>(id).await.unwrap().unwrap().value;
    let sessions: Vec<_> = chain.sessions().map(|chained| chained.session_id).collect();
    assert_eq!(sessions, [first, failed.id(), restarted]);
    let session = fixture.app.store.session(restarted).await.unwrap().unwrap();
    let continues = session.continues().unwrap();
    assert_eq!((session.chain_id(), continues.session_id, continues.position), (Some(id), failed.id(), 3));
    assert!(continues.document.is_some(), "it gets the document that the failed session received");

    fixture.session = restarted;
    fixture.react().await;
    fixture.start_turn().await;
    fixture.complete_turn(false).await;
    let (status, body) = fixture.send("POST", &fixture.session_path("/close"), json!({})).await;
    assert!(status < 300, "{body}");
    fixture.react().await;
    assert_eq!(fixture.chain_status(id).await, "Completed");
}

#[tokio::test]
async fn restart_in_a_full_chain_is_refused_and_the_session_can_resume() {
    let fixture = ProjectFixture::continued().await;
    let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    fixture.fill_chain(session.chain_id().unwrap()).await;
    fixture.end_run().await;
    fixture.react().await;
    let decision = fixture.only("").await;
    assert_eq!(decision["kind"], "crash_recovery");
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!((status, &body["code"]), (409, &json!("chain-full")), "{body}");
    assert!(body["detail"].as_str().unwrap().contains("the maximum of 800 sessions"), "{body}");
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("resume")).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn restart_leaves_a_cancelled_chain_as_it_is() {
    let fixture = ProjectFixture::continued().await;
    fixture.end_run().await;
    fixture.react().await;
    let failed = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    let id = failed.chain_id().unwrap();
    let (status, body) = fixture.send("POST", &format!("/api/agents/chains/{id}/cancel"), json!({})).await;
    assert!(status < 300, "{body}");
    let decision = fixture.only("").await;
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!(status, 200, "{body}");
    let restarted = fixture.loaded_agent().await.value.current_session_id();
    let session = fixture.app.store.session(restarted).await.unwrap().unwrap();
    assert_eq!((session.chain_id(), fixture.chain_status(id).await.as_str()), (None, "Cancelled"));
}

#[tokio::test]
async fn abandoned_agent_stays_as_it_is() {
    let fixture = ProjectFixture::crashed(Value::Null).await;
    let decision = fixture.only("").await;
    assert_eq!(fixture.resolve_decision(&decision, ProjectFixture::recover("abandon")).await.0, 200);
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Failed");
    assert!(fixture.inbox("").await.is_empty(), "the decision is over");
    let agent = fixture.loaded_agent().await.value;
    assert_eq!(agent.current_session_id(), fixture.session, "no other session starts");
}

#[tokio::test]
async fn retry_of_the_session_ends_the_decision() {
    let fixture = ProjectFixture::crashed(Value::Null).await;
    let (status, body) = fixture.send("POST", &fixture.session_path("/retry"), json!({})).await;
    assert_eq!(status, 202, "{body}");
    fixture.react().await;
    assert!(fixture.inbox("").await.is_empty());
    assert_eq!(fixture.only("?state=cancelled").await["reason"], "retried");
}

#[tokio::test]
async fn trusted_agent_resumes_after_the_cooldown() {
    let conditions = json!({ "minTrustScore": 50, "cooldownMs": 5000, "maxConsecutiveCrashes": 1 });
    let policy = json!({ "autoRestart": true, "autoRestartConditions": conditions });
    let fixture = ProjectFixture::crashed(policy).await;
    assert_eq!(fixture.only("").await["automatic"]["recovery"], "resume");
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Failed", "the cooldown lasts");
    fixture.advance(Duration::from_secs(5));
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Queued");
    assert_eq!(
        fixture.only("?state=auto_resolved").await["resolvedBy"],
        json!({ "type": "recovery_policy" })
    );
    fixture.process_deadlines().await;
    fixture.react().await;
    fixture.end_run().await;
    fixture.react().await;
    let second = fixture.only("").await;
    assert_eq!((&second["consecutiveCrashes"], &second["automatic"]), (&json!(2), &Value::Null));
}

#[tokio::test]
async fn completed_turn_ends_the_row_of_crashes() {
    let fixture = ProjectFixture::crashed(Value::Null).await;
    let decision = fixture.only("").await;
    fixture.resolve_decision(&decision, ProjectFixture::recover("resume")).await;
    fixture.react().await;
    fixture.start_turn().await;
    fixture.complete_turn(false).await;
    fixture
        .observe(AgentFact::TurnStarted {
            turn: pilothouse_domain::TurnId::parse("t2").unwrap(),
            message: None,
        })
        .await;
    fixture.end_run().await;
    fixture.react().await;
    assert_eq!(fixture.only("").await["consecutiveCrashes"], 1);
}

#[tokio::test]
async fn untrusted_agent_waits_for_a_person() {
    let policy = json!({ "autoRestart": true, "autoRestartConditions": { "cooldownMs": 0 } });
    let fixture = ProjectFixture::crashed(policy).await;
    assert_eq!(fixture.only("").await["automatic"], Value::Null, "trust is 50, and 70 is needed");
}

#[tokio::test]
async fn brake_holds_recoveries_until_its_release() {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    for (prefers_resume, of_session) in [(true, false), (false, false), (true, true), (false, true)] {
        let policy = json!({
            "autoRestart": true, "autoRestartConditions": conditions, "preferResumeOverRestart": prefers_resume,
        });
        let fixture = ProjectFixture::working().await;
        fixture.configure(json!({ "crashRecovery": policy })).await;
        let scope = if of_session {
            json!({ "type": "session", "sessionId": fixture.session })
        } else {
            json!({ "type": "all" })
        };
        let body = json!({ "scope": scope, "reason": "Stop" });
        let (status, brake) = fixture.send("POST", "/api/brake", body).await;
        assert_eq!(status, 202, "{brake}");
        let brake = brake["id"].as_str().unwrap();
        fixture.react_to("brake", brake, 1).await;
        fixture.end_run().await;
        fixture.react().await;
        fixture.process_deadlines().await;
        fixture.react().await;
        let current = async || {
            let id = fixture.loaded_agent().await.value.current_session_id();
            fixture.app.store.session(id).await.unwrap().unwrap()
        };
        let session = current().await;
        assert_eq!(
            (session.status().to_string().as_str(), session.run()),
            ("Queued", None),
            "{prefers_resume} {of_session}"
        );
        assert_eq!(session.id() == fixture.session, prefers_resume);
        assert_eq!(fixture.send("POST", &format!("/api/brakes/{brake}/release"), json!({})).await.0, 200);
        fixture.react_to("brake", brake, 2).await;
        assert!(current().await.run().is_some(), "{prefers_resume} {of_session}");
    }
}

#[tokio::test]
async fn person_and_clock_recover_once() {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let policy = json!({ "autoRestart": true, "autoRestartConditions": conditions });
    let fixture = ProjectFixture::crashed(policy).await;
    let decision = fixture.only("").await;
    let person = fixture.resolve_decision(&decision, ProjectFixture::recover("restart"));
    let ((status, _), ()) = futures_util::join!(person, fixture.process_deadlines());
    let agent = fixture.loaded_agent().await.value;
    let has_restarted = agent.current_session_id() != fixture.session;
    assert_eq!(status == 200, has_restarted, "one of them won");
    assert_eq!(fixture.session_status().await, if has_restarted { "Failed" } else { "Queued" });
}

fn unconditional_recovery(prefers_resume: bool) -> Value {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    json!({
        "autoRestart": true, "autoRestartConditions": conditions, "preferResumeOverRestart": prefers_resume,
    })
}

#[tokio::test]
async fn kill_of_a_project_leaves_recoveries_to_a_person() {
    // The reaction to the crash may come before the kill or after it.
    for is_known in [true, false] {
        let fixture = ProjectFixture::working().await;
        fixture.configure(json!({ "crashRecovery": unconditional_recovery(true) })).await;
        fixture.end_run().await;
        if is_known {
            fixture.react().await;
            assert_eq!(fixture.only("").await["automatic"]["recovery"], "resume");
        }
        let path = format!("/api/projects/{}/kill", fixture.project);
        let (status, killed) = fixture.send("POST", &path, Value::Null).await;
        assert_eq!((status, &killed["agents"]), (200, &json!([])), "{killed}");
        fixture.react().await;
        fixture.process_deadlines().await;
        assert_eq!(fixture.session_status().await, "Failed", "{is_known}");
        let decision = fixture.only("").await;
        assert_eq!(decision["automatic"], Value::Null, "{is_known}");
        let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("resume")).await;
        assert_eq!(status, 200, "a person may still recover it: {body}");
    }
}

#[tokio::test]
async fn no_agent_of_an_archived_project_recovers() {
    for prefers_resume in [true, false] {
        let fixture = ProjectFixture::crashed(unconditional_recovery(prefers_resume)).await;
        let path = format!("/api/projects/{}/archive", fixture.project);
        assert_eq!(fixture.send("POST", &path, Value::Null).await.0, 200);
        let decision = fixture.only("").await;
        for option in ["resume", "restart"] {
            let (status, refused) =
                fixture.resolve_decision(&decision, ProjectFixture::recover(option)).await;
            assert_eq!((status, &refused["code"]), (409, &json!("project-archived")), "{option}");
        }
        fixture.process_deadlines().await;
        assert_eq!(fixture.session_status().await, "Failed");
        assert_eq!(fixture.only("").await["automatic"], Value::Null, "it is left to a person");
    }
}

/// The end of the process decides what becomes of a message that was sent.
#[tokio::test]
async fn restart_waits_for_the_end_of_the_process() {
    let fixture = ProjectFixture::working().await;
    fixture.configure(json!({ "crashRecovery": unconditional_recovery(false) })).await;
    let steers = Capabilities { steer_mid_turn: true, pause: true, ..Capabilities::default() };
    fixture.observe(AgentFact::SidecarReady(steers)).await;
    let message = json!({ "content": "Use SQLite", "priority": "Immediate" });
    let (status, sent) = fixture.send("POST", &fixture.session_path("/messages/queue"), message).await;
    assert_eq!(status, 201, "{sent}");
    fixture.fail().await;
    fixture.react().await;
    let decision = fixture.only("").await;
    let (status, refused) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!((status, &refused["code"]), (409, &json!("process-stopping")), "{refused}");
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Failed", "it is not resumed instead");
    assert_eq!(fixture.only("").await["automatic"]["recovery"], "restart", "no person is needed");

    fixture.end_run().await;
    fixture.process_deadlines().await;
    let session = fixture.loaded_agent().await.value.current_session_id();
    assert_ne!(session, fixture.session);
    assert!(fixture.waiting_messages(&session.to_string()).await.contains("Use SQLite"));
    let loaded = fixture.app.store.conversation(session).await.unwrap().unwrap();
    let is_sent = loaded.conversation.queue.messages().iter().any(|message| message.sent);
    assert!(!is_sent, "it can be delivered");
}

#[tokio::test]
async fn full_chain_opens_one_decision_that_cancels_or_keeps_it() {
    for (option, then) in [("cancel", "Cancelled"), ("keep", "Active")] {
        let (fixture, chain) = Box::pin(ProjectFixture::with_full_chain()).await;
        fixture.react().await;
        let decision = fixture.only("").await;
        assert_eq!((&decision["kind"], &decision["chainId"]), (&json!("handoff_failed"), &json!(chain)));
        assert_eq!(decision["sessionId"], json!(fixture.session));
        assert_eq!(fixture.resolve_decision(&decision, ProjectFixture::recover(option)).await.0, 200);
        assert_eq!(fixture.chain_status(chain).await, then);
        fixture.react().await;
        assert!(fixture.inbox("").await.is_empty(), "it is not asked again");
    }
}

#[tokio::test]
async fn cancelled_chain_ends_its_decision() {
    let (fixture, chain) = Box::pin(ProjectFixture::with_full_chain()).await;
    let (status, body) = fixture.send("POST", &format!("/api/agents/chains/{chain}/cancel"), json!({})).await;
    assert!(status < 300, "{body}");
    let version = fixture.app.store.any_aggregate::<SessionChain>(chain).await.unwrap().unwrap().version;
    fixture.react_to("chain", &chain.to_string(), version).await;
    assert_eq!(fixture.only("?state=cancelled").await["reason"], "chain_ended");
}

/// An agent without a continuation does not run, and the clock of its project stops.
#[tokio::test]
async fn agent_of_a_full_chain_waits_for_its_person() {
    for option in ["cancel", "keep"] {
        let (fixture, chain) = Box::pin(ProjectFixture::with_full_chain()).await;
        fixture.react().await;
        assert_eq!(fixture.agent_status().await, "waiting_on_human");
        let decision = fixture.only("").await;
        assert_eq!(fixture.resolve_decision(&decision, ProjectFixture::recover(option)).await.0, 200);
        if option == "cancel" {
            let loaded = fixture.app.store.any_aggregate::<SessionChain>(chain).await.unwrap().unwrap();
            fixture.react_to("chain", &chain.to_string(), loaded.version).await;
        }
        fixture.react().await;
        assert_eq!(fixture.agent_status().await, "error", "{option}");
        fixture.assert_clock_is_stopped().await;
    }
}

#[tokio::test]
async fn exhausted_agent_of_a_cancelled_chain_is_not_running() {
    let fixture = ProjectFixture::working().await;
    fixture.observe(AgentFact::ContextExhausted).await;
    let session = fixture.app.store.session(fixture.session).await.unwrap().unwrap();
    let chain = session.chain_id().unwrap();
    let (status, body) = fixture.send("POST", &format!("/api/agents/chains/{chain}/cancel"), json!({})).await;
    assert!(status < 300, "{body}");
    let version = fixture.app.store.any_aggregate::<SessionChain>(chain).await.unwrap().unwrap().version;
    fixture.react_to("chain", &chain.to_string(), version).await;
    fixture.react().await;
    assert_eq!(fixture.agent_status().await, "running", "its process writes the handoff document");
    fixture.end_run().await;
    fixture.react().await;
    assert_eq!(fixture.agent_status().await, "error");
    fixture.assert_clock_is_stopped().await;
    assert_eq!(fixture.loaded_agent().await.value.current_session_id(), fixture.session);
}

#[tokio::test]
async fn recovery_needs_room_for_a_sidecar() {
    for option in ["resume", "restart"] {
        let mut fixture = ProjectFixture::crashed(Value::Null).await;
        let decision = fixture.only("").await;
        fixture.set_room(false);
        let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover(option)).await;
        assert_eq!((status, &body["code"]), (503, &json!("server-at-capacity")), "{option}");
        assert_eq!((fixture.session_status().await.as_str(), fixture.inbox("").await.len()), ("Failed", 1));
        let (status, _) = fixture.resolve_decision(&decision, ProjectFixture::recover("abandon")).await;
        assert_eq!(status, 200, "nothing starts");
    }
}

#[tokio::test]
async fn restart_that_waits_for_a_slot_needs_no_room() {
    let mut fixture = ProjectFixture::crashed(Value::Null).await;
    let decision = fixture.only("").await;
    let (status, body) =
        fixture.send("PATCH", "/api/agents/pool", json!({ "maxConcurrentSessions": 1 })).await;
    assert_eq!(status, 200, "{body}");
    let other = json!({ "workingDirectory": "/w", "objective": "Do it", "budgetCapUsd": "1" });
    let (status, body) = fixture.send("POST", "/api/agents/sessions", other).await;
    assert!(status < 300, "{body}");
    fixture.set_room(false);
    let (status, body) = fixture.resolve_decision(&decision, ProjectFixture::recover("restart")).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn automatic_recovery_waits_for_room() {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let policy = json!({ "autoRestart": true, "autoRestartConditions": conditions });
    let mut fixture = ProjectFixture::crashed(policy).await;
    fixture.set_room(false);
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Failed");
    assert_eq!(fixture.only("").await["automatic"]["recovery"], "resume", "no person is needed");
    fixture.set_room(true);
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Queued");
}
