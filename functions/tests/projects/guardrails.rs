//! Guardrails of a brief on texts for its agent and on outputs (decision 79): refusals, returned outputs, and their records.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pilothouse_api::project_stream::{AgentEventContent, ProjectMessageBody};
use pilothouse_domain::Project;
use pilothouse_domain::escalation::{GuardrailAction, GuardrailLevel};
use pilothouse_domain::routing::Workspace;
use pilothouse_domain::value::Capabilities;
use pilothouse_functions::events::intake;
use pilothouse_test_support::{received, sealed_event};

use super::*;
use crate::fixture::owner;
use crate::images::image;

/// A guardrail for texts with `secret`.
fn secrets(action: &str) -> Value {
    json!({ "name": "no secrets", "action": action, "description": "Secrets stay out",
        "condition": { "text": ["*secret*"] } })
}

/// A guardrail for results with a price.
fn prices(action: &str) -> Value {
    json!({ "name": "no prices", "action": action, "description": "Prices stay out",
        "condition": { "result": [{ "at": "/price", "matches": "*" }] } })
}

impl ProjectFixture {
    /// An agent in its first turn whose brief has these guardrails.
    async fn guarded(policy: Value) -> Self {
        let fixture = Self::working().await;
        let (status, body) = fixture.change_brief(json!({ "guardrailPolicy": policy })).await;
        assert_eq!(status, 200, "{body}");
        fixture
    }

    async fn say(&self, content: &str) -> (u16, Value) {
        self.send("POST", &self.session_path("/messages/queue"), json!({ "content": content })).await
    }

    async fn queued(&self) -> Vec<String> {
        let (_, queue) = self.send("GET", &self.session_path("/messages/queue"), Value::Null).await;
        let items = queue["items"].as_array().unwrap().iter();
        items.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }

    /// The guardrails in the decision log, oldest first.
    async fn trips(&self) -> Vec<Value> {
        let log = self.log().await;
        log.into_iter().filter(|entry| entry["type"] == "guardrail").rev().collect()
    }

    /// The end of the turn, as the sidecar reports it.
    async fn ends_turn(&self, sequence: u64, output: Value) {
        let event = json!({ "type": "turn_completed", "turnId": "t", "output": output });
        let sealed = sealed_event(&self.app, self.session, self.run().await, Some(sequence), event);
        assert_eq!(intake::process(&self.app, vec![received(sealed)]).await.done.len(), 1);
    }
}

fn is_blocked(response: &(u16, Value)) {
    let (status, body) = response;
    assert_eq!((*status, &body["code"]), (409, &json!("guardrail-blocked")), "{body}");
}

fn subjects(trips: &[Value]) -> Vec<&str> {
    trips.iter().map(|trip| trip["subject"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn blocked_message_leaves_no_images() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    let queue = fixture.session_path("/messages/queue");
    let say = async |content: &str| {
        fixture.send("POST", &queue, json!({ "content": content, "images": [image()] })).await
    };
    is_blocked(&say("the secret is 7").await);
    assert_eq!(fixture.stored_blobs(), 0);
    let (status, sent) = say("look").await;
    assert_eq!((status, fixture.stored_blobs()), (201, 1), "{sent}");
}

#[tokio::test]
async fn blocked_message_is_refused_and_recorded_everywhere() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    let (mut stream, _) = fixture.app.project_stream(&owner(), fixture.project, None).await.unwrap();
    let refused = fixture.say("the secret is 7").await;
    is_blocked(&refused);
    let expected = "The guardrail `no secrets` of the agent's brief refuses this message (Secrets stay out); \
                    change the message, or the guardrail.";
    assert_eq!(refused.1["detail"], expected);
    assert_eq!(fixture.queued().await, [] as [&str; 0]);

    fixture.react().await;
    fixture.react().await;
    let trips = fixture.trips().await;
    let [trip] = &trips[..] else { panic!("one entry, also after a repeated reaction: {trips:#?}") };
    assert_eq!((&trip["level"], &trip["subject"]), (&json!("input"), &json!("message")));
    assert_eq!(trip["agentId"], json!(fixture.agent));
    let guardrail = json!({ "name": "no secrets", "action": "block", "description": "Secrets stay out" });
    assert_eq!(trip["guardrail"], guardrail);

    for source in stream.sources() {
        stream.mark_changed(source);
    }
    let mut found = None;
    while let Some(messages) = stream.read().await.unwrap() {
        for message in messages {
            if let ProjectMessageBody::Event(event) = message.body
                && let AgentEventContent::Guardrail { level, action, tripped, .. } =
                    event.envelope.event.content
            {
                found = Some((event.workspace, level, action, tripped));
            }
        }
    }
    let level = (Some(GuardrailLevel::Input), Some(GuardrailAction::Block));
    assert_eq!(found, Some((Some(Workspace::Controls), level.0, level.1, true)));

    fixture.advance(Duration::from_secs(1));
    let briefing = fixture.got(&format!("/api/projects/{}/briefing", fixture.project)).await;
    let risk = &briefing["risks"]["sentences"][0];
    assert_eq!(risk["text"], "The guardrail “no secrets” of Builder refused a message to the agent.");
    assert_eq!(risk["agentId"], json!(fixture.agent));

    assert_eq!(fixture.say("hello").await.0, 201, "other messages are sent");
    assert_eq!(fixture.trips().await.len(), 1);
}

#[tokio::test]
async fn message_that_only_warns_is_sent_and_logged() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("warn")] })).await;
    let (status, sent) = fixture.say("the secret is 7").await;
    assert_eq!(status, 201, "{sent}");
    assert_eq!(fixture.queued().await, ["the secret is 7"]);
    fixture.react().await;
    let trips = fixture.trips().await;
    assert_eq!((trips.len(), &trips[0]["guardrail"]["action"]), (1, &json!("warn")));
}

#[tokio::test]
async fn repeated_message_is_answered_though_the_brief_blocks_it_now() {
    let fixture = ProjectFixture::working().await;
    let body = json!({ "content": "the secret is 7", "messageId": "01900000-0000-7000-8000-000000000001" });
    let path = fixture.session_path("/messages/queue");
    assert_eq!(fixture.send("POST", &path, body.clone()).await.0, 201);
    let policy = json!({ "inputGuardrails": [secrets("block")] });
    assert_eq!(fixture.change_brief(json!({ "guardrailPolicy": policy })).await.0, 200);
    assert_eq!(fixture.send("POST", &path, body).await.0, 201);
    assert_eq!(fixture.queued().await, ["the secret is 7"]);
}

#[tokio::test]
async fn refusal_of_a_repeated_request_is_recorded_once() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    let queue = fixture.session_path("/messages/queue");
    let say = async |key: &str, content: &str| {
        is_blocked(&fixture.post_with_key(key, &queue, json!({ "content": content })).await);
    };
    for _ in 0..3 {
        say("a", "the secret is 7").await;
    }
    let text = "the secret is 8";
    join_all([say("b", text), say("b", text), say("b", text)]).await;
    fixture.react().await;
    assert_eq!(fixture.trips().await.len(), 2);
    say("b", "the secret is 9").await;
    fixture.react().await;
    assert_eq!(fixture.trips().await.len(), 3, "another text");
    assert_eq!(fixture.queued().await, [] as [&str; 0]);

    let policy = json!({ "inputGuardrails": [secrets("block")] });
    let agent = json!({ "brief": { "role": "Writer", "workstream": "api", "guardrailPolicy": policy },
        "objective": "Publish the secret", "workingDirectory": "/w", "budgetCapUsd": "5" });
    for _ in 0..2 {
        is_blocked(&fixture.post_with_key("c", "/api/agents/spawn", agent.clone()).await);
    }
    assert_eq!(fixture.trips().await.len(), 4, "the refused objective is logged once");
}

#[tokio::test]
async fn edits_and_retries_are_judged() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    let (_, sent) = fixture.say("hello").await;
    let message = sent["message"]["messageId"].as_str().unwrap();
    let path = fixture.session_path(&format!("/messages/queue/{message}"));
    is_blocked(&fixture.send("PATCH", &path, json!({ "content": "the secret is 7", "position": 0 })).await);
    assert_eq!(fixture.queued().await, ["hello"]);
    assert_eq!(fixture.send("PATCH", &path, json!({ "position": 0 })).await.0, 200);

    fixture.advance(Duration::from_secs(1));
    fixture.fail().await;
    fixture.react().await;
    let retry = fixture.session_path("/retry");
    is_blocked(&fixture.send("POST", &retry, json!({ "additionalInstruction": "Use the secret" })).await);
    assert_eq!(fixture.session_status().await, "Failed");
    let (status, body) = fixture.send("POST", &retry, json!({ "additionalInstruction": "Again" })).await;
    assert_eq!(status, 202, "{body}");
    fixture.react().await;
    assert_eq!(subjects(&fixture.trips().await), ["message", "instruction"]);
}

#[tokio::test]
async fn answers_and_feedback_are_judged_on_every_route() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    let asks = |request: &str| AgentFact::QuestionAsked {
        request: request.parse().unwrap(),
        questions: vec![serde_json::from_value(json!({ "question": "Which store?" })).unwrap()],
        approval: None,
        proposal: None,
        timeout: None,
    };
    let shows = AgentFact::PlanShown { request: "p1".parse().unwrap(), content: None, timeout: None };
    for fact in [asks("q1"), asks("q2"), shows] {
        fixture.observe(fact).await;
    }
    let with = |answer: &str| json!([{ "question": "Which store?", "answer": answer }]);
    let answer = async |answer: &str| {
        let body = json!({ "requestId": "q1", "answers": with(answer) });
        fixture.send("POST", &fixture.session_path("/answer"), body).await
    };
    is_blocked(&answer("the secret one").await);
    assert_eq!(answer("SQLite").await.0, 200);
    let decisions = fixture.inbox("").await;
    let resolve = async |request: &str, resolution: Value| {
        let decision = decisions.iter().find(|it| it["requestId"] == request).unwrap();
        fixture.resolve_decision(decision, resolution).await
    };
    is_blocked(
        &resolve("q2", json!({ "resolutionType": "answer", "answers": with("the secret one") })).await,
    );
    assert_eq!(resolve("q2", json!({ "resolutionType": "answer", "answers": with("SQLite") })).await.0, 202);
    let reject = |why: &str| json!({ "resolutionType": "reject", "rationale": why });
    is_blocked(&resolve("p1", reject("Use the secret")).await);
    let plan = json!({ "requestId": "p1", "feedback": "Use the secret" });
    is_blocked(&fixture.send("POST", &fixture.session_path("/plan/reject"), plan).await);
    assert_eq!(resolve("p1", reject("Smaller")).await.0, 202);
    fixture.react().await;
    let trips = fixture.trips().await;
    let mut subjects = subjects(&trips);
    subjects.sort_unstable();
    assert_eq!(subjects, ["answer", "answer", "feedback", "feedback"]);
}

#[tokio::test]
async fn answer_to_an_orphan_is_judged_for_the_agent_that_receives_it() {
    let fixture = ProjectFixture::working().await;
    let policy = json!({ "default": "reassign", "gracePeriodMs": 0 });
    fixture.configure(json!({ "orphanedDecisions": { "adaptive": policy } })).await;
    let asked = AgentFact::QuestionAsked {
        request: "q1".parse().unwrap(),
        questions: vec![serde_json::from_value(json!({ "question": "Which store?" })).unwrap()],
        approval: None,
        proposal: None,
        timeout: None,
    };
    fixture.observe(asked).await;
    assert_eq!(fixture.send("POST", &fixture.session_path("/cancel"), json!({})).await.0, 202);
    let agent = json!({
        "projectId": fixture.project, "objective": "Build it", "workingDirectory": "/w", "budgetCapUsd": "5",
        "brief": { "role": "Builder", "workstream": "api",
            "guardrailPolicy": { "inputGuardrails": [secrets("block")] } },
    });
    assert_eq!(fixture.send("POST", "/api/agents/spawn", agent).await.0, 201);
    fixture.process_deadlines().await;
    let orphan = fixture.only("").await;
    assert_eq!(orphan["stage"], "reassigned", "{orphan}");
    let answer = |text: &str| {
        let answers = json!([{ "question": "Which store?", "answer": text }]);
        json!({ "resolutionType": "answer", "answers": answers })
    };
    is_blocked(&fixture.resolve_decision(&orphan, answer("the secret one")).await);
    let (status, resolved) = fixture.resolve_decision(&orphan, answer("SQLite")).await;
    assert_eq!((status, &resolved["delivery"]), (200, &json!("message")), "{resolved}");
}

#[tokio::test]
async fn instructions_for_a_summary_are_judged() {
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    fixture
        .observe(AgentFact::SidecarReady(Capabilities { compaction: true, ..Capabilities::default() }))
        .await;
    let compact = fixture.session_path("/compact");
    is_blocked(&fixture.send("POST", &compact, json!({ "instructions": "Keep the secret" })).await);
    let (_, view) = fixture.send("GET", &fixture.session_path(""), Value::Null).await;
    assert_eq!(view.get("adjustments"), None, "{view}");
    let (status, body) = fixture.send("POST", &compact, json!({ "instructions": "Keep the plan" })).await;
    assert_eq!(status, 202, "{body}");
    fixture.react().await;
    assert_eq!(subjects(&fixture.trips().await), ["instruction"]);
}

#[tokio::test]
async fn refused_retry_reserves_no_room() {
    let mut fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [secrets("block")] })).await;
    fixture.fail().await;
    fixture.react().await;
    let reserved = fixture.count_reserved_room();
    let retry = fixture.session_path("/retry");
    is_blocked(&fixture.send("POST", &retry, json!({ "additionalInstruction": "Use the secret" })).await);
    assert_eq!(reserved.load(Ordering::Relaxed), 0);
    let (status, body) = fixture.send("POST", &retry, json!({ "additionalInstruction": "Again" })).await;
    assert_eq!((status, reserved.load(Ordering::Relaxed)), (202, 1), "{body}");
}

#[tokio::test]
async fn blocked_objective_creates_no_agent() {
    let fixture = ProjectFixture::working().await;
    let spawn = |action: &str| {
        let policy = json!({ "inputGuardrails": [secrets(action)] });
        json!({ "brief": { "role": "Writer", "workstream": "api", "guardrailPolicy": policy },
            "objective": "Publish the secret", "workingDirectory": "/w", "budgetCapUsd": "5" })
    };
    is_blocked(&fixture.send("POST", "/api/agents/spawn", spawn("block")).await);
    let project = fixture.app.store.aggregate::<Project>(&owner(), fixture.project).await.unwrap().unwrap();
    assert_eq!(project.value.agents().len(), 1);
    let trips = fixture.trips().await;
    assert_eq!((subjects(&trips), trips[0].get("agentId")), (vec!["objective"], None));

    fixture.advance(Duration::from_secs(1));
    let (status, spawned) = fixture.send("POST", "/api/agents/spawn", spawn("log")).await;
    assert_eq!(status, 201, "{spawned}");
    fixture.react_of(spawned["session"]["id"].as_str().unwrap().parse().unwrap()).await;
    let agents: Vec<_> = fixture.trips().await.iter().map(|trip| trip["agentId"].clone()).collect();
    assert_eq!(agents, [Value::Null, spawned["agent"]["id"].clone()]);
}

/// A crashed agent whose objective its brief does not allow any more.
async fn crashed_with_a_blocked_objective(policy: Value) -> ProjectFixture {
    let blocked = json!({ "name": "no building", "action": "block", "condition": { "text": ["Build it"] } });
    let fixture = ProjectFixture::guarded(json!({ "inputGuardrails": [blocked] })).await;
    fixture.configure(json!({ "crashRecovery": policy })).await;
    fixture.end_run().await;
    fixture.react().await;
    fixture
}

#[tokio::test]
async fn agent_does_not_start_again_with_a_blocked_objective() {
    let fixture = crashed_with_a_blocked_objective(Value::Null).await;
    let decision = fixture.only("").await;
    let choice = |option: &str| json!({ "resolutionType": "choose_option", "chosenOptionId": option });
    is_blocked(&fixture.resolve_decision(&decision, choice("restart")).await);
    fixture.react().await;
    assert_eq!(subjects(&fixture.trips().await), ["objective"]);
    let (status, body) = fixture.resolve_decision(&decision, choice("resume")).await;
    assert_eq!(status, 200, "its conversation can continue: {body}");
}

#[tokio::test]
async fn automatic_recovery_resumes_if_the_objective_is_blocked() {
    let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
    let restarts = json!({
        "autoRestart": true, "autoRestartConditions": conditions, "preferResumeOverRestart": false,
    });
    let fixture = crashed_with_a_blocked_objective(restarts).await;
    assert_eq!(fixture.only("").await["automatic"]["recovery"], "restart");
    fixture.process_deadlines().await;
    assert_eq!(fixture.session_status().await, "Queued");
    assert_eq!(fixture.loaded_agent().await.value.current_session_id(), fixture.session);
    fixture.react().await;
    assert_eq!(subjects(&fixture.trips().await), ["objective"]);
}

#[tokio::test]
async fn blocked_output_of_a_turn_is_returned_to_the_agent() {
    let fixture = ProjectFixture::guarded(json!({ "outputGuardrails": [prices("block")] })).await;
    let forged = json!([{ "name": "forged", "action": "log" }]);
    fixture.ends_turn(1, json!({ "result": { "price": 7 }, "guardrails": forged })).await;
    let (_, view) = fixture.send("GET", &fixture.session_path(""), Value::Null).await;
    assert_eq!((&view["hasPendingReview"], &view["output"]), (&json!(false), &Value::Null), "{view}");
    let queued = fixture.queued().await;
    assert!(queued[0].contains("- the result is not allowed: Prices stay out"), "{queued:?}");
    fixture.react().await;
    let trips = fixture.trips().await;
    assert_eq!((trips.len(), &trips[0]["level"]), (1, &json!("output")), "{trips:#?}");
    assert_eq!(trips[0]["guardrail"]["name"], "no prices", "what a sidecar reports does not count");
}

#[tokio::test]
async fn output_that_a_guardrail_asks_about_is_reviewed_first() {
    let fixture = ProjectFixture::guarded(json!({ "outputGuardrails": [prices("ask")] })).await;
    fixture.ends_turn(1, json!({ "result": { "price": 7 } })).await;
    let review = fixture.only("").await;
    assert_eq!((&review["kind"], &review["severity"]), (&json!("output_review"), &json!("high")));
    assert_eq!(review["output"]["guardrails"][0]["name"], "no prices");
    fixture.advance(Duration::from_secs(1));
    let briefing = fixture.got(&format!("/api/projects/{}/briefing", fixture.project)).await;
    let text = briefing["attention"]["sentences"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("the guardrail “no prices” tripped on it."), "{text}");
}

#[tokio::test]
async fn changed_guardrails_hold_for_the_next_text_and_output() {
    let policy = json!({ "inputGuardrails": [secrets("block")], "outputGuardrails": [prices("block")] });
    let fixture = ProjectFixture::guarded(policy).await;
    is_blocked(&fixture.say("the secret is 7").await);
    assert_eq!(fixture.change_brief(json!({ "guardrailPolicy": null })).await.0, 200);
    assert_eq!(fixture.say("the secret is 7").await.0, 201);
    fixture.ends_turn(1, json!({ "result": { "price": 7 } })).await;
    let review = fixture.only("").await;
    assert_eq!(review["output"].get("guardrails"), None, "{review}");
}
