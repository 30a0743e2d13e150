//! The inbox: what waits for the owner in all sessions (decision 74).

use std::time::Duration;

use pilothouse_api::decisions::DecisionView;
use pilothouse_client::{InboxEvent, InboxWatch};
use pilothouse_domain::decision::{DecisionState, DecisionStatus};
use pilothouse_tests::{Api, PATIENCE, Reply, Session};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::scripts::{say, script, turn, with_output};
use crate::server::{Server, started, work};

const INBOX: &str = "/api/decisions";

fn question() -> Value {
    json!({ "question": { "id": "q1", "questions": [{ "question": "Which name?" }] } })
}

fn options() -> Value {
    json!({ "question": { "id": "o1", "questions": [
        { "question": "Which colour?", "options": [{ "label": "Red" }, { "label": "Blue" }] },
    ] } })
}

/// A tool call that waits for permission; the answer becomes its result.
pub(crate) fn permission() -> [Value; 3] {
    let asked = json!({ "type": "question_asked", "requestId": "t1",
        "questions": [{ "question": "May the agent use Bash: rm x?", "options": [{ "label": "Allow" }, { "label": "Deny" }] }],
        "approval": { "toolName": "Bash", "input": { "command": "rm x" }, "allow": "Allow", "deny": "Deny" } });
    [
        json!({ "tool": { "id": "t1", "name": "Bash", "input": { "command": "rm x" } } }),
        json!({ "raw": asked }),
        json!({ "waitForAnswer": "t1" }),
    ]
}

/// A session whose agent plays these steps, when it waits for its owner.
async fn waiting(server: &Server, steps: &[Value], status: &str) -> Session {
    let mut steps = steps.to_vec();
    steps.push(say("Thanks."));
    let session = started(server, &script(&[turn(&steps)])).await;
    session.until_status(status).await;
    session
}

async fn pending(api: &Api) -> Vec<Value> {
    api.all(INBOX).await
}

/// The only pending decision of a session.
async fn decision_of(session: &Session) -> Value {
    let found = session.api.all(&format!("{INBOX}?session={}", session.id)).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].clone()
}

async fn resolve(api: &Api, decision: &Value, body: Value) -> Reply {
    api.post(&format!("{INBOX}/{}/resolve", decision["id"].as_str().unwrap()), body).await
}

/// Waits until a decision has this state.
async fn until_state(session: &Session, decision: &Value, state: &str) -> Value {
    let path = format!("{INBOX}/{}", decision["id"].as_str().unwrap());
    session
        .until_within(pilothouse_tests::PATIENCE, state, async || {
            let view = session.api.get(&path).await.expect(200).body;
            (view["state"] == state).then_some(view)
        })
        .await
}

async fn result_of_call(session: &Session) -> String {
    session.until_status("Idle").await;
    session.tool_calls().await[0]["result"]["content"].as_str().unwrap().to_owned()
}

/// Requests of four sessions form one inbox in order, and each is resolved with its effect.
#[tokio::test]
async fn requests_of_four_sessions_are_resolved_in_one_inbox() {
    let server = Server::start(1).await;
    let plan = json!({ "plan": { "id": "p1", "text": "1. Rewrite all", "revisions": ["1. Fix the bug"] } });
    let asking = waiting(&server, &[question()], "WaitingForInput").await;
    let planning = waiting(&server, &[plan], "WaitingForApproval").await;
    let acting = waiting(&server, &permission(), "WaitingForInput").await;
    let done = started(&server, &with_output()).await;
    done.until_status("Idle").await;

    let api = server.api();
    let listed = pending(&api).await;
    let kinds: Vec<_> = listed.iter().map(|decision| decision["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tool_approval", "question", "plan", "output_review"]);
    let sessions: Vec<_> = listed.iter().map(|decision| decision["sessionId"].as_str().unwrap()).collect();
    assert_eq!(sessions, [&acting.id, &asking.id, &planning.id, &done.id]);
    assert_eq!((&listed[0]["toolName"], &listed[0]["severity"]), (&json!("Bash"), &json!("high")));
    assert_eq!(listed[0]["input"], r#"{"command":"rm x"}"#);
    let page = api.get(&format!("{INBOX}?limit=1&counts=true&kind=plan")).await.expect(200).body;
    assert_eq!(page["counts"]["pending"], 4);
    assert_eq!(page["counts"]["byKind"]["tool_approval"], 1);

    let [permission, question, plan, review] = &listed[..] else { panic!("{listed:#?}") };
    let denied = json!({ "resolutionType": "reject", "rationale": "use trash instead" });
    let reply = resolve(&api, permission, denied).await;
    assert_eq!(reply.expect(202).body["state"], "resolving");
    assert!(result_of_call(&acting).await.contains("use trash instead"));
    let answer = json!([{ "question": "Which name?", "answer": "Ada" }]);
    resolve(&api, question, json!({ "resolutionType": "answer", "answers": answer })).await.expect(202);
    assert!(result_of_call(&asking).await.contains("Ada"));
    resolve(&api, plan, json!({ "resolutionType": "reject", "rationale": "Too much" })).await.expect(202);
    let revised = planning.until("a revision", |v| v["sessionPlan"]["content"] == "1. Fix the bug").await;
    assert_eq!(revised["status"], "WaitingForApproval");
    let revision = decision_of(&planning).await;
    assert_eq!(revision["version"], 2);
    resolve(&api, &revision, json!({ "resolutionType": "approve" })).await.expect(202);
    planning.until_said("Thanks.").await;
    let approved = resolve(&api, review, json!({ "resolutionType": "approve" })).await.expect(200).body;
    assert_eq!((&approved["state"], &approved["resolvedBy"]["type"]), (&json!("resolved"), &json!("owner")));
    assert_eq!(done.view().await["status"], "Completed");

    for (session, decision) in [(&acting, permission), (&asking, question), (&planning, plan)] {
        let resolved = until_state(session, decision, "resolved").await;
        assert_eq!(resolved["delivery"], "command");
    }
    let rejected = until_state(&acting, permission, "resolved").await;
    assert_eq!(
        rejected["resolution"],
        json!({ "resolutionType": "reject", "rationale": "use trash instead" })
    );
    assert_eq!(pending(&api).await, Vec::<Value>::new());
    let resolved = api.all(&format!("{INBOX}?state=resolved")).await;
    assert_eq!(resolved.len(), 5);
}

/// An option is chosen by its number; a resolution that does not fit is refused with every violation and changes nothing.
#[tokio::test]
async fn resolution_that_does_not_fit_names_all_violations() {
    let server = Server::start(1).await;
    let session = waiting(&server, &[options()], "WaitingForInput").await;
    let decision = decision_of(&session).await;
    assert_eq!((&decision["kind"], &decision["options"][1]["id"]), (&json!("option"), &json!("2")));
    let wrong = json!({ "resolutionType": "approve", "chosenOptionId": "2", "rationale": "so" });
    let refused = resolve(&session.api, &decision, wrong).await;
    let refused = refused.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["chosenOptionId", "rationale", "resolutionType"]);
    let unknown = json!({ "resolutionType": "choose_option", "chosenOptionId": "3" });
    let refused = resolve(&session.api, &decision, unknown).await;
    assert_eq!(refused.refused(422, "validation-failed").violated(), ["chosenOptionId"]);
    assert_eq!(decision_of(&session).await, decision);

    let chosen = json!({ "resolutionType": "choose_option", "chosenOptionId": "2" });
    resolve(&session.api, &decision, chosen).await.expect(202);
    assert!(result_of_call(&session).await.contains("Blue"));
}

/// Of two resolutions at the same time one wins; the other is refused with the winner and the time.
#[tokio::test]
async fn first_of_two_resolutions_wins() {
    let server = Server::start(1).await;
    let session = waiting(&server, &[options()], "WaitingForInput").await;
    let decision = decision_of(&session).await;
    let chosen = |id: &str| json!({ "resolutionType": "choose_option", "chosenOptionId": id });
    let (red, blue) = tokio::join!(
        resolve(&session.api, &decision, chosen("1")),
        resolve(&session.api, &decision, chosen("2")),
    );
    let (won, lost) = if red.status == 202 { (red, blue) } else { (blue, red) };
    let won = won.expect(202).body;
    let lost = lost.refused(409, "decision-over");
    assert_eq!(lost.body["decision"]["resolvedBy"], won["resolvedBy"]);
    assert_eq!(lost.body["decision"]["endedAt"], won["resolvedAt"]);
    session.until_status("Idle").await;
    let resolved = until_state(&session, &decision, "resolved").await;
    assert_eq!(resolved["resolution"], won["resolution"]);
}

/// A request that is decided on at its session is resolved in the inbox.
#[tokio::test]
async fn answer_at_the_session_resolves_the_decision() {
    let server = Server::start(1).await;
    let session = waiting(&server, &[options()], "WaitingForInput").await;
    let decision = decision_of(&session).await;
    let answers = json!([{ "question": "Which colour?", "answer": "Blue" }]);
    session.post("/answer", json!({ "requestId": "o1", "answers": answers })).await.expect(200);
    let resolved = until_state(&session, &decision, "resolved").await;
    assert_eq!(resolved["resolution"], json!({ "resolutionType": "choose_option", "chosenOptionId": "2" }));
    resolve(&session.api, &decision, json!({ "resolutionType": "approve" }))
        .await
        .refused(409, "decision-over");
}

/// A request that nobody answers expires; the requests of a cancelled session are cancelled.
#[tokio::test]
async fn decisions_end_with_their_time_or_their_session() {
    let server = Server::start(1).await;
    let mut body = work(&server, &script(&[turn(&[options(), say("On.")])]));
    body["requestTimeoutSeconds"] = json!(1);
    let late = Session::start(&server.api(), body).await;
    late.until_status("Failed").await;
    let expired = server.api().all(&format!("{INBOX}?state=expired")).await;
    assert_eq!(expired[0]["sessionId"], late.id);
    resolve(&late.api, &expired[0], json!({ "resolutionType": "approve" }))
        .await
        .refused(409, "decision-over");

    let session = waiting(&server, &[question()], "WaitingForInput").await;
    let decision = decision_of(&session).await;
    session.post("/cancel", json!({})).await;
    let cancelled = until_state(&session, &decision, "cancelled").await;
    assert_eq!(cancelled["reason"], "session_cancelled");
    session.until_status("Cancelled").await;
    assert_eq!(pending(&session.api).await, Vec::<Value>::new());
}

/// The decisions of an owner do not exist for others.
#[tokio::test]
async fn decision_of_another_owner_is_not_found() {
    let server = Server::start(1).await;
    let session = waiting(&server, &[question()], "WaitingForInput").await;
    let decision = decision_of(&session).await;
    let other = server.api_of("somebody-else");
    assert_eq!(pending(&other).await, Vec::<Value>::new());
    other.get(&format!("{INBOX}/{}", decision["id"].as_str().unwrap())).await.refused(404, "not-found");
    let approve = json!({ "resolutionType": "approve" });
    resolve(&other, &decision, approve.clone()).await.refused(404, "not-found");
    for unknown in ["no-id", "00000000-0000-7000-8000-000000000000"] {
        resolve(&session.api, &json!({ "id": unknown }), approve.clone()).await.refused(404, "not-found");
    }
    session.api.get(&format!("{INBOX}?state=open")).await.refused(422, "validation-failed");
    assert_eq!(decision_of(&session).await, decision);
}

/// A live inbox reports what is opened and what becomes of it, also across a restart of the server, and nothing of other owners.
#[tokio::test]
async fn inbox_is_followed_live_across_reconnections() {
    let mut server = Server::start(1).await;
    let first = waiting(&server, &[question()], "WaitingForInput").await;
    let mut watch = server.client().watch_inbox();
    let mut other = server.client_of("someone-else").watch_inbox();
    assert_eq!(listed(&mut watch).await, std::slice::from_ref(&first.id));
    assert_eq!(listed(&mut other).await, [] as [String; 0]);

    let second = waiting(&server, &permission(), "WaitingForInput").await;
    let opened = until_changed(&mut watch, &second.id, DecisionStatus::Pending).await;
    assert_eq!(opened.severity.map(|severity| severity.to_string()).as_deref(), Some("high"));
    let approve = json!({ "resolutionType": "approve" });
    resolve(&server.api(), &decision_of(&second).await, approve).await.expect(202);
    let resolved = until_changed(&mut watch, &second.id, DecisionStatus::Resolved).await;
    assert_eq!(resolved.id, opened.id);

    server.restart().await;
    first.post("/cancel", json!({})).await;
    until_gone(&mut watch, &first.id).await;
    let nothing = tokio::time::timeout(Duration::ZERO, other.next()).await;
    assert!(!matches!(nothing, Ok(Ok(InboxEvent::Decision(_)))), "{nothing:?}");
}

/// A live inbox reports a decision that a brake suspends, its release, and its end while it is suspended.
#[tokio::test]
async fn inbox_reports_suspended_decisions_and_their_end() {
    let server = Server::start(1).await;
    let session = waiting(&server, &[question()], "WaitingForInput").await;
    let mut watch = server.client().watch_inbox();
    assert_eq!(listed(&mut watch).await, std::slice::from_ref(&session.id));
    let all = json!({ "scope": { "type": "all" }, "reason": "Look at the logs" });
    let brake = server.api().post("/api/brake", all.clone()).await.expect(202).body;
    until_changed(&mut watch, &session.id, DecisionStatus::Suspended).await;
    server.api().post(&crate::brakes::path(&brake, "/release"), json!({})).await.expect(200);
    until_changed(&mut watch, &session.id, DecisionStatus::Pending).await;

    server.api().post("/api/brake", all).await.expect(202);
    until_changed(&mut watch, &session.id, DecisionStatus::Suspended).await;
    session.post("/cancel", json!({})).await;
    until_changed(&mut watch, &session.id, DecisionStatus::Cancelled).await;
}

/// The sessions of the next list.
async fn listed(watch: &mut InboxWatch) -> Vec<String> {
    loop {
        if let InboxEvent::Listed(all) = timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
            return all.iter().map(session_of).collect();
        }
    }
}

/// The id of the session of a decision.
fn session_of(decision: &DecisionView) -> String {
    decision.session.as_ref().unwrap().session_id.to_string()
}

/// Reads until the session has no pending decision: by its end, or by a list after a reconnection.
async fn until_gone(watch: &mut InboxWatch, session: &str) {
    loop {
        match timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
            InboxEvent::Listed(all) if all.iter().all(|one| session_of(one) != session) => return,
            InboxEvent::Decision(one)
                if session_of(&one) == session && one.state != DecisionState::Pending =>
            {
                return;
            }
            InboxEvent::Listed(_) | InboxEvent::Decision(_) | InboxEvent::Disconnected { .. } => {}
        }
    }
}

/// Reads until the decision of a session has this state.
async fn until_changed(watch: &mut InboxWatch, session: &str, state: DecisionStatus) -> DecisionView {
    loop {
        if let InboxEvent::Decision(decision) = timeout(PATIENCE, watch.next()).await.unwrap().unwrap()
            && session_of(&decision) == session
            && decision.state.status() == state
        {
            return *decision;
        }
    }
}

/// An agent proposes options with what it recommends. The choice and its reason are the result of its call.
#[tokio::test]
async fn proposed_options_are_chosen_with_a_reason() {
    let server = Server::start(1).await;
    let option =
        |id: &str, label: &str| json!({ "id": id, "label": label, "description": "d", "tradeoffs": "t" });
    let options = json!([option("lite", "SQLite"), option("pg", "Postgres")]);
    let assessment = json!({ "recommendedOptionId": "lite", "confidence": 0.9, "severity": "high",
        "blastRadius": "large", "affectedArtifactIds": ["schema.sql"], "requiresRationale": true });
    let mut proposal = assessment.clone();
    proposal["options"] = options.clone();
    let asked = json!({ "type": "question_asked", "requestId": "d1",
        "questions": [{ "question": "Which store?", "options": [{ "label": "SQLite" }, { "label": "Postgres" }] }],
        "proposal": proposal });
    let steps = [
        json!({ "tool": { "id": "d1", "name": "request_decision", "input": {} } }),
        json!({ "raw": asked }),
        json!({ "waitForAnswer": "d1" }),
    ];
    let session = waiting(&server, &steps, "WaitingForInput").await;
    let decision = decision_of(&session).await;
    assert_eq!((&decision["kind"], &decision["question"]), (&json!("option"), &json!("Which store?")));
    assert_eq!((&decision["options"], &decision["assessment"]), (&options, &assessment));
    assert_eq!((&decision["severity"], &decision["blastRadius"]), (&json!("high"), &json!("large")));
    let silent = json!({ "resolutionType": "choose_option", "chosenOptionId": "pg" });
    resolve(&session.api, &decision, silent).await.refused(422, "validation-failed");
    let chosen =
        json!({ "resolutionType": "choose_option", "chosenOptionId": "pg", "rationale": "we have it" });
    resolve(&session.api, &decision, chosen.clone()).await.expect(202);
    assert!(result_of_call(&session).await.contains("Postgres: we have it"));
    let resolved = until_state(&session, &decision, "resolved").await;
    assert_eq!(resolved["resolution"], chosen);
}
