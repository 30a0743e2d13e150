//! Changes of model and thinking level, compaction and fork through the control plane (S1 5), and the allowance of a run
//! (decision 32).

use http::Method;
use pilothouse_tests::{PATIENCE, Session};
use serde_json::{Value, json};

use crate::scripts::{say, script, turn};
use crate::server::{Server, work};

fn with_models(steps: &[Value]) -> Value {
    let mut plays = script(steps);
    plays["models"] = json!(["small", "medium", "large"]);
    plays
}

async fn with_model(server: &Server, plays: &Value) -> Session {
    let mut body = work(server, plays);
    body["modelId"] = json!("small");
    body["thinkingLevel"] = json!("low");
    Session::start(&server.api(), body).await
}

async fn until_adjusted(session: &Session) -> Value {
    session.until("the change", |v| v["adjustments"] == Value::Null).await
}

async fn until_asleep(server: &Server, session: &Session) {
    session.until("hibernation", |v| v["hibernated"] == true).await;
    let gone = async || server.sidecars().is_empty().then_some(());
    session.until_within(PATIENCE, "no process", gone).await;
}

/// The settings of the agent are shown from the start, change while it runs, and survive the run.
#[tokio::test]
async fn model_is_chosen_cycled_and_kept_across_runs() {
    let server = Server::start(1).await;
    let configuration = say("{{configuration}}");
    let plays = with_models(&[
        turn(&[json!({ "waitForMessage": {} }), configuration.clone()]),
        turn(&[configuration]),
    ]);
    let mut body = work(&server, &plays);
    body["modelId"] = json!("small");
    body["thinkingLevel"] = json!("low");
    body["idleTimeoutSeconds"] = json!(2);
    let session = Session::start(&server.api(), body).await;
    let view = session
        .until("the settings of the agent", |v| v["agentSettings"]["availableModels"] != Value::Null)
        .await;
    assert_eq!(
        view["agentSettings"],
        json!({ "modelId": "small", "thinkingLevel": "low", "availableModels": ["small", "medium", "large"] })
    );
    session.until_status("Running").await;

    let asked =
        session.patch("", json!({ "modelId": "large", "thinkingLevel": "high" })).await.expect(202).body;
    assert_eq!(asked["modelId"], "small", "the change takes effect once the agent confirms it");
    let view = until_adjusted(&session).await;
    assert_eq!((&view["modelId"], &view["status"]), (&json!("large"), &json!("Running")));
    assert_eq!(view["agentSettings"]["thinkingLevel"], "high");

    session.patch("", json!({ "cycleModel": "backward" })).await.expect(202);
    let view = until_adjusted(&session).await;
    assert_eq!((&view["modelId"], &view["agentSettings"]["modelId"]), (&json!("medium"), &json!("medium")));

    // The agent refuses an unknown model, which changes nothing.
    session.patch("", json!({ "modelId": "huge" })).await.expect(202);
    let view = until_adjusted(&session).await;
    assert_eq!((&view["modelId"], &view["status"]), (&json!("medium"), &json!("Running")));
    let activity = session.activity().await;
    let summaries: Vec<_> = activity.iter().map(|l| l["summary"].as_str().unwrap()).collect();
    assert!(summaries.contains(&"The sidecar refused: this agent has no model huge"), "{summaries:#?}");
    assert!(summaries.contains(&"Not done: use the model huge: the agent refused"), "{summaries:#?}");

    session.say("Go on.", "Immediate").await;
    until_asleep(&server, &session).await;
    // Without an agent, the change takes effect at once, and the next run starts with it.
    let view = session.patch("", json!({ "cycleModel": "forward" })).await.expect(200).body;
    assert_eq!((&view["modelId"], &view["hibernated"]), (&json!("large"), &json!(true)));
    session.say("Again.", "Queued").await;
    let view = session.until("the next run", |v| v["currentRun"]["ordinal"] == 2).await;
    assert_eq!(view["modelId"], "large");
    let in_words = async || session.said().await.last().filter(|s| s.contains("You said: Again.")).cloned();
    session.until_within(PATIENCE, "an answer", in_words).await;
    let view = session.until("the settings of the agent", |v| v["agentSettings"]["modelId"] == "large").await;
    assert_eq!(view["agentSettings"]["thinkingLevel"], "high");
}

/// All violations of a request are reported, and the session of another owner is not found.
#[tokio::test]
async fn invalid_change_requests_are_refused() {
    let server = Server::start(1).await;
    let session = with_model(&server, &with_models(&[turn(&[json!({ "waitForMessage": {} })])])).await;
    session.until("a turn", |v| v["currentTurn"] != Value::Null).await;
    let wrong = session
        .patch("", json!({ "modelId": "", "cycleModel": "sideways", "thinkingLevel": "deep", "speed": 9 }))
        .await
        .refused(422, "validation-failed");
    let mut fields = wrong.violated();
    fields.sort_unstable();
    fields.dedup();
    assert_eq!(fields, ["cycleModel", "modelId", "speed", "thinkingLevel"]);
    session.patch("", json!({})).await.refused(422, "validation-failed");
    let both = session.patch("", json!({ "modelId": "large", "cycleModel": "forward" })).await;
    assert_eq!(both.refused(422, "validation-failed").violated(), ["cycleModel"]);
    session.post("/fork", json!({})).await.refused(422, "validation-failed");
    // Only possible between turns.
    session.post("/fork", json!({ "beforeTurnId": "turn-1-1" })).await.refused(409, "invalid-transition");
    let other = server.api_of("eve").session(&session.id);
    other.patch("", json!({ "modelId": "large" })).await.refused(404, "not-found");
    other.post("/compact", json!({})).await.refused(404, "not-found");
    other.get("/deliverables").await.refused(404, "not-found");
    session.get("/deliverables").await.refused(404, "not-found");
}

/// A conversation is summarised while the agent works and rewound between turns. A hibernated session wakes for it.
#[tokio::test]
async fn conversation_is_summarised_and_rewound() {
    let server = Server::start(1).await;
    let plays = script(&[turn(&[json!({ "waitForMessage": {} }), say("Done.")])]);
    let mut body = work(&server, &plays);
    body["idleTimeoutSeconds"] = json!(2);
    let session = Session::start(&server.api(), body).await;
    session.until("a turn", |v| v["currentTurn"] != Value::Null).await;
    session.post("/compact", json!({ "instructions": "Keep the plan." })).await.expect(202);
    until_adjusted(&session).await;
    let summarised =
        |activity: &[Value]| activity.iter().any(|l| l["summary"] == "Done: summarise the conversation");
    session.until_activity("the summary", summarised).await;
    let view = session.view().await;
    let turn_id = view["currentTurn"]["id"].as_str().unwrap().to_owned();
    session.say("Finish.", "Immediate").await;

    session.until_status("Idle").await;
    until_asleep(&server, &session).await;
    let asked = session.post("/fork", json!({ "beforeTurnId": turn_id })).await.expect(202).body;
    assert_eq!(asked["adjustments"][0]["beforeTurnId"], turn_id.as_str());
    let view = until_adjusted(&session).await;
    assert_eq!((&view["status"], &view["currentRun"]["ordinal"]), (&json!("Idle"), &json!(2)));
    let went_back = |activity: &[Value]| {
        activity.iter().any(|l| l["summary"] == format!("Done: rewind to before turn {turn_id}"))
    };
    session.until_activity("the fork", went_back).await;
    // The agent refuses an unknown turn.
    session.post("/fork", json!({ "beforeTurnId": "turn-9-9" })).await.expect(202);
    until_adjusted(&session).await;
    let refused = |activity: &[Value]| {
        activity
            .iter()
            .any(|l| l["summary"].as_str().unwrap().starts_with("Not done: rewind to before turn turn-9-9"))
    };
    session.until_activity("the refusal", refused).await;
}

/// Conversations are begun, switched and labelled between turns, listed, and kept across runs.
#[tokio::test]
async fn conversations_are_begun_switched_labelled_and_kept() {
    let server = Server::start(1).await;
    let mut body = work(&server, &script(&[turn(&[json!({ "waitForMessage": {} }), say("Done.")])]));
    body["idleTimeoutSeconds"] = json!(2);
    let session = Session::start(&server.api(), body).await;
    let listed = async || session.get("/conversations").await.expect(200).body;
    session.until("a turn", |v| v["currentTurn"] != Value::Null).await;
    session.post("/new-conversation", json!({})).await.refused(409, "invalid-transition");
    assert_eq!(listed().await, json!({ "branches": [], "labels": [] }));
    session.say("Finish.", "Immediate").await;
    session.until_status("Idle").await;

    let asked = session.post("/new-conversation", json!({})).await.expect(202).body;
    assert_eq!(asked["adjustments"][0]["kind"], "new_conversation");
    until_adjusted(&session).await;
    let branches = listed().await["branches"].clone();
    let (first, second) = (&branches[0], &branches[1]);
    assert_eq!(first["isCurrent"], false);
    assert_eq!((&second["isCurrent"], &second["parentId"]), (&json!(true), &first["conversationId"]));
    session.say("Something else.", "Queued").await;
    session.until("the next turn", |v| v["status"] == "Idle" && v["metrics"]["turnCount"] == 2).await;
    assert_eq!(listed().await["branches"][1]["turns"], 1);

    // A hibernated session wakes for it.
    until_asleep(&server, &session).await;
    let label = json!({ "turnId": listed().await["branches"][1]["lastTurnId"], "label": "Something else" });
    session.post("/label", label.clone()).await.expect(202);
    assert_eq!(until_adjusted(&session).await["currentRun"]["ordinal"], 2);
    assert_eq!(listed().await["labels"], json!([label]));
    let target = json!({ "conversationId": first["conversationId"] });
    session.post("/switch-conversation", target).await.expect(202);
    until_adjusted(&session).await;
    assert_eq!(listed().await["branches"][0]["isCurrent"], true);

    session.post("/switch-conversation", json!({ "conversationId": "none" })).await.expect(202);
    until_adjusted(&session).await;
    let refused = |activity: &[Value]| {
        activity
            .iter()
            .any(|l| l["summary"].as_str().unwrap().starts_with("Not done: switch to the conversation none"))
    };
    session.until_activity("the refusal", refused).await;
    assert_eq!(listed().await["branches"][0]["isCurrent"], true);
    let other = server.api_of("eve").session(&session.id);
    other.get("/conversations").await.refused(404, "not-found");
}

/// A repeated request with the same key takes effect once.
#[tokio::test]
async fn repeated_change_request_gets_the_same_response() {
    let server = Server::start(1).await;
    let session = with_model(&server, &with_models(&[turn(&[json!({ "waitForMessage": {} })])])).await;
    session.until("a turn", |v| v["currentTurn"] != Value::Null).await;
    let key = [("Idempotency-Key", "compact-once")];
    let compact = async || {
        let path = session.path("/compact");
        session.api.send(Method::POST, &path, &key, Some(b"{}".to_vec())).await.expect(202)
    };
    let first = compact().await;
    let again = compact().await;
    assert_eq!(first.body, again.body);
    until_adjusted(&session).await;
    let activity = session.activity().await;
    let asked = activity.iter().filter(|l| l["summary"] == "Asked: summarise the conversation").count();
    assert_eq!(asked, 1);
}

/// The agent prices its calls. A call that could exceed the remaining budget pauses the session first, and is made in the same turn after a
/// raise of the cap (decision 32).
#[tokio::test]
async fn a_call_beyond_the_budget_waits_for_the_cap() {
    let server = Server::start(1).await;
    let spends = json!({ "usage": { "costUsd": "0.07", "tokens": { "inputTokens": 10 } } });
    let plays = script(&[turn(&[spends, json!({ "price": "0.05" }), say("Called.")])]);
    let mut body = work(&server, &plays);
    body["budgetCapUsd"] = json!("0.1");
    let session = Session::start(&server.api(), body).await;
    let view = session.until_status("Paused").await;
    assert_eq!(view["pausedReason"], "budget-exhausted");
    let budget = &view["budget"];
    assert_eq!((&budget["exhausted"], &budget["remainingUsd"]), (&json!(true), &json!("0.03")));
    assert_eq!((&budget["allowanceUsd"], &budget["overshootUsd"]), (&json!("0.1"), &json!("0")));
    let turn_id = view["currentTurn"]["id"].clone();
    let activity = session.activity().await;
    let why = "The next model call may cost 0.05 dollars, but only 0.03 of 0.1 are left";
    assert_eq!(activity.iter().filter(|l| l["summary"] == why).count(), 1, "{activity:#?}");
    let notified = async || {
        let all = server.api().all("/api/notifications").await;
        all.iter().any(|n| n["kind"] == "budget-exhausted" && n["text"] == format!("{why}.")).then_some(())
    };
    session.until_within(PATIENCE, "the notification", notified).await;

    session.post("/resume", json!({})).await.refused(409, "budget-exhausted");
    // The new cap is too low: the session pauses again with the new allowance.
    session.patch("/budget", json!({ "capUsd": "0.11" })).await.expect(200);
    session.post("/resume", json!({})).await.expect(202);
    session.until("the second hold", |v| v["status"] == "Paused" && v["budget"]["exhausted"] == true).await;
    session.patch("/budget", json!({ "capUsd": "1" })).await.expect(200);
    assert!(session.said().await.is_empty());
    session.post("/resume", json!({})).await.expect(202);
    session.until_said("Called.").await;
    let view = session.until_status("Idle").await;
    assert_eq!((&view["metrics"]["turnCount"], &view["lastOutcome"]), (&json!(1), &json!("completed")));
    assert!(turn_id["id"] == Value::Null && turn_id.is_string(), "the turn stayed open");
}
