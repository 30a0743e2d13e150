//! Emergency brakes (S2 "Emergency Brake", decision 72).

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use pilothouse_tests::{Api, PATIENCE, Session};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::connect_async;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::projects::{project, spawned};
use crate::scripts::{endless, say, script, turn, works_until_message};
use crate::server::{Server, started, work};

/// An agent that works, and ignores a request to pause.
fn deaf() -> Value {
    let ignore = json!({ "ignore": { "command": "pause" } });
    script(&[turn(&[ignore, say("Working."), json!({ "wait": 600_000 })])])
}

/// An agent that asks a question.
fn asking() -> Value {
    script(&[turn(&[
        json!({ "question": { "id": "q1", "questions": [{ "question": "Which?" }] } }),
        say("Thanks."),
    ])])
}

fn answer() -> Value {
    json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "That" }] })
}

async fn pull(server: &Server, scope: Value, behavior: &str) -> Value {
    let body = json!({ "scope": scope, "behavior": behavior, "reason": "It deletes the wrong files" });
    server.api().post("/api/brake", body).await.expect(202).body
}

fn all() -> Value {
    json!({ "type": "all" })
}

fn only(session: &Session) -> Value {
    json!({ "type": "session", "sessionId": session.id })
}

pub(crate) fn path(brake: &Value, rest: &str) -> String {
    format!("/api/brakes/{}{rest}", brake["id"].as_str().unwrap())
}

/// Waits until every session of a brake has stopped, and returns the brake.
async fn stopped(server: &Server, brake: &Value) -> Value {
    let api = server.api();
    let confirmed = async || {
        let view = api.get(&path(brake, "")).await.expect(200).body;
        (view["confirmedCount"] == view["sessionCount"]).then_some(view)
    };
    api.session("none").until_within(PATIENCE, "the confirmation of all sessions", confirmed).await
}

async fn release(server: &Server, brake: &Value) -> Value {
    server.api().post(&path(brake, "/release"), json!({})).await.expect(200).body
}

/// What the brake says about each session.
pub(crate) fn by_session(brake: &Value) -> BTreeMap<String, Value> {
    let sessions = brake["sessions"].as_array().unwrap().iter();
    sessions.map(|session| (session["sessionId"].as_str().unwrap().to_owned(), session.clone())).collect()
}

/// A brake on a workstream stops its agents, also those that are spawned later. Other agents and sessions continue.
#[tokio::test]
async fn brake_on_a_workstream_stops_its_agents_only() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (_, builder) = spawned(&server, &shop, "Builder", &endless()).await;
    let outside = started(&server, &endless()).await;
    builder.until_said("Working.").await;
    outside.until_said("Working.").await;
    let scope =
        |workstream: &str| json!({ "type": "workstream", "projectId": shop["id"], "workstream": workstream });
    let docs = pull(&server, scope("docs"), "pause").await;
    assert_eq!(docs["sessionCount"], 0, "nobody works on the guides");
    release(&server, &docs).await;

    let brake = pull(&server, scope("api"), "pause").await;
    let view = stopped(&server, &brake).await;
    assert_eq!(view["sessions"][0]["sessionId"], builder.id.as_str());
    let late = json!({
        "projectId": shop["id"], "objective": "Test it", "workingDirectory": server.work_folder(), "budgetCapUsd": "1",
        "brief": { "role": "Tester", "workstream": "api", "adapter": "script", "providerConfig": { "script": endless() } },
    });
    let late = api.post("/api/agents/spawn", late).await.expect(202).body;
    assert_eq!(late["session"]["status"], "Queued", "an agent of the workstream does not start");
    assert_eq!(outside.view().await["status"], "Running");

    release(&server, &brake).await;
    builder.until_status("Running").await;
    let late = api.session(late["session"]["id"].as_str().unwrap());
    late.until_said("Working.").await;
    let agent = builder.view().await["project"]["agentId"].clone();
    let only = pull(&server, json!({ "type": "agent", "agentId": agent }), "pause").await;
    stopped(&server, &only).await;
    assert_eq!(late.view().await["status"], "Running");
    let unknown = json!({ "scope": scope("web"), "reason": "x" });
    assert_eq!(api.post("/api/brake", unknown).await.expect(422).violated(), ["scope.workstream"]);
    let body = json!({ "scope": { "type": "project", "projectId": shop["id"] }, "reason": "x" });
    server.api_of("someone-else").post("/api/brake", body).await.refused(404, "not-found");
}

/// The live list of sessions reports brakes, also if there is no session.
#[tokio::test]
async fn live_list_of_sessions_reports_brakes() {
    let server = Server::start(1).await;
    let url = format!("{}/ws/sessions", server.url().replacen("http", "ws", 1));
    let mut request = url.into_client_request().unwrap();
    let token = format!("Bearer {}", server.token("local"));
    request.headers_mut().insert("authorization", token.parse().unwrap());
    let mut live = connect_async(request).await.unwrap().0;
    let mut until_sent = async |wanted: Value| {
        loop {
            let message = timeout(PATIENCE, live.next()).await.unwrap().unwrap().unwrap();
            let sent = message.to_text().ok().and_then(|text| serde_json::from_str::<Value>(text).ok());
            if sent.as_ref() == Some(&wanted) {
                return;
            }
        }
    };
    let brakes = json!({ "type": "brakes", "data": {} });
    until_sent(json!({ "type": "caught_up", "data": {} })).await;
    let brake = pull(&server, all(), "pause").await;
    until_sent(brakes.clone()).await;
    release(&server, &brake).await;
    until_sent(brakes).await;
}

#[tokio::test]
async fn brake_stops_everything_and_its_release_resumes_it() {
    let server = Server::start(20).await;
    let one = started(&server, &endless()).await;
    let other = started(&server, &endless()).await;
    let ignoring = started(&server, &deaf()).await;
    let paused = started(&server, &endless()).await;
    for session in [&one, &other, &ignoring, &paused] {
        session.until_said("Working.").await;
    }
    paused.post("/pause", json!({})).await.expect(202);
    paused.until_status("Paused").await;

    let brake = pull(&server, all(), "pause").await;
    assert_eq!((&brake["sessionCount"], &brake["behavior"]), (&json!(4), &json!("pause")));
    let late = server.api().post("/api/agents/sessions", work(&server, &endless())).await.expect(202).body;
    assert_eq!(late["session"]["queuedReason"], "braked");
    assert_eq!(late["pool"]["brakeIds"], json!([brake["id"]]));
    let late = server.api().session(late["session"]["id"].as_str().unwrap());

    let brake = stopped(&server, &brake).await;
    assert_eq!(brake["progress"], "4 of 4 confirmed");
    let seen = by_session(&brake);
    for session in [&one, &other, &ignoring, &paused] {
        assert_eq!(
            (&seen[&session.id]["stage"], &seen[&session.id]["status"]),
            (&json!("confirmed"), &json!("Paused"))
        );
        session.post("/resume", json!({})).await.refused(409, "braked");
        session.say("Go on", "Queued").await;
    }
    assert_eq!(seen[&ignoring.id]["escalated"], true, "its process was ended");
    assert_eq!(ignoring.view().await["hibernated"], true);
    let view = one.view().await;
    assert_eq!((&view["pausedReason"], &view["heldBy"]), (&json!("brake"), &json!([brake["id"]])));
    assert_eq!(paused.view().await["pausedReason"], "owner");
    let waiting = late.view().await;
    assert_eq!((&waiting["status"], &waiting["queuedReason"]), (&json!("Queued"), &json!("braked")));
    assert!(waiting["currentRun"].is_null(), "nothing starts");

    let released = release(&server, &brake).await;
    assert_eq!(released["released"]["by"], "owner");
    late.until_said("Working.").await;
    for session in [&one, &other, &ignoring] {
        session.until("its work", |v| v["status"] != "Paused" && v["heldBy"].is_null()).await;
    }
    assert_eq!(paused.view().await["status"], "Paused", "its owner had paused it");
    server.api().post(&path(&brake, "/release"), json!({})).await.refused(409, "brake-over");
    paused.post("/resume", json!({})).await.expect(202);
}

/// Its process is gone, so a message of Pilothouse begins the turn that continues its work.
#[tokio::test]
async fn killed_agent_works_on_after_the_release() {
    let server = Server::start(1).await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let brake = pull(&server, only(&session), "kill").await;
    stopped(&server, &brake).await;
    release(&server, &brake).await;
    let view = session.until("a turn of the next run", |v| v["currentTurn"]["id"] == "turn-1-2").await;
    assert_eq!((&view["status"], &view["currentRun"]["ordinal"]), (&json!("Running"), &json!(2)));
    session.say("And now?", "Immediate").await;
    session.until_said("Told: And now?").await;
}

#[tokio::test]
async fn killed_session_keeps_its_request_and_is_answered_later() {
    let server = Server::start(20).await;
    let (session, free) = (started(&server, &asking()).await, started(&server, &endless()).await);
    session.until_status("WaitingForInput").await;
    free.until_said("Working.").await;
    let brake = pull(&server, only(&session), "kill").await;
    session.post("/answer", answer()).await.refused(409, "braked");
    stopped(&server, &brake).await;
    let view = session.view().await;
    assert_eq!((&view["status"], &view["hibernated"]), (&json!("Paused"), &json!(true)));
    assert_eq!(view["pendingRequests"][0]["id"], "q1");
    assert_eq!(free.view().await["status"], "Running", "the brake stops one session only");
    server.api().post("/api/agents/sessions", work(&server, &endless())).await.expect(201);

    release(&server, &brake).await;
    let view = session.until_status("WaitingForInput").await;
    assert_eq!(view["hibernated"], true, "it needs no process to wait");
    session.post("/answer", answer()).await.expect(200);
    session.until("the next run", |v| v["currentRun"]["ordinal"] == 2).await;
}

#[tokio::test]
async fn paused_question_is_answered_after_the_release() {
    let server = Server::start(1).await;
    let session = started(&server, &asking()).await;
    session.until_status("WaitingForInput").await;
    let brake = pull(&server, only(&session), "pause").await;
    stopped(&server, &brake).await;
    assert_eq!(session.view().await["hibernated"], false, "the process is suspended");
    session.post("/answer", answer()).await.refused(409, "braked");
    release(&server, &brake).await;
    session.until_status("WaitingForInput").await;
    session.post("/answer", answer()).await.expect(200);
    session.until_status("Idle").await;
    assert_eq!(session.said().await, ["Thanks."]);
}

#[tokio::test]
async fn one_session_is_released_while_the_brake_holds_the_others() {
    let server = Server::start(1).await;
    let (one, other) = (started(&server, &endless()).await, started(&server, &endless()).await);
    one.until_said("Working.").await;
    other.until_said("Working.").await;
    let brake = pull(&server, all(), "pause").await;
    stopped(&server, &brake).await;
    let some = json!({ "sessionIds": [one.id] });
    let view = server.api().post(&path(&brake, "/release"), some.clone()).await.expect(200).body;
    assert_eq!(by_session(&view)[&one.id]["stage"], "released");
    one.until_status("Running").await;
    assert_eq!(other.view().await["status"], "Paused");
    server.api().post(&path(&brake, "/release"), some).await.refused(409, "not-braked");
    release(&server, &brake).await;
    other.until_status("Running").await;
}

#[tokio::test]
async fn timer_releases_the_brake() {
    let server = Server::start(1).await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    let body = json!({ "scope": all(), "reason": "A short look", "releaseAfterSeconds": 3 });
    let brake = server.api().post("/api/brake", body).await.expect(202).body;
    stopped(&server, &brake).await;
    session.until("its resume", |v| v["status"] == "Running" && v["heldBy"].is_null()).await;
    let view = server.api().get(&path(&brake, "")).await.expect(200).body;
    assert_eq!(view["released"]["by"], "timer");
    let list = server.api().get("/api/brakes").await.expect(200).body;
    assert_eq!(list["items"][0]["id"], brake["id"]);
}

#[tokio::test]
async fn bad_brake_names_every_violation_and_changes_nothing() {
    let mut server = Server::start(1).await;
    server.serve("someone-else");
    let session = started(&server, &endless()).await;
    let other = server.api_of("someone-else");
    let wrong =
        json!({ "scope": { "type": "agent" }, "behavior": "stop", "releaseAfterSeconds": 0, "until": 1 });
    let mut violated =
        server.api().post("/api/brake", wrong).await.refused(422, "validation-failed").violated();
    violated.sort();
    assert_eq!(violated, ["behavior", "reason", "releaseAfterSeconds", "scope", "until"]);
    let body = json!({ "scope": only(&session), "reason": "Not mine" });
    other.post("/api/brake", body.clone()).await.refused(404, "not-found");
    let mixed = json!({ "scope": { "type": "all", "sessionId": session.id }, "reason": "Which?" });
    server.api().post("/api/brake", mixed).await.refused(422, "validation-failed");
    assert_eq!(server.api().get("/api/brakes").await.expect(200).body["items"], json!([]));

    let keyed = async |api: &Api| {
        let headers = [("Idempotency-Key", "one-brake")];
        api.send(Method::POST, "/api/brake", &headers, Some(body.to_string().into_bytes())).await.expect(202)
    };
    let brake = keyed(&server.api()).await.body;
    assert_eq!(keyed(&server.api()).await.body, brake, "a repeated request pulls no second brake");
    assert_eq!(server.api().get("/api/brakes").await.expect(200).body["items"].as_array().unwrap().len(), 1);
    other.get(&path(&brake, "")).await.refused(404, "not-found");
    other.post(&path(&brake, "/release"), json!({})).await.refused(404, "not-found");
    session.post("/cancel", json!({ "force": true })).await;
    session.until_status("Cancelled").await;
    let over = json!({ "scope": only(&session), "reason": "Too late" });
    server.api().post("/api/brake", over).await.refused(409, "invalid-transition");
}

/// Brakes, releases, starts, resumes and messages at the same time: the activity of each session shows that nothing worked between
/// its stop and its release.
#[tokio::test]
async fn nothing_works_between_its_stop_and_its_release() {
    let server = Server::start(1).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let session = started(&server, &endless()).await;
        session.until_said("Working.").await;
        sessions.push(session);
    }
    let mut brakes = Vec::new();
    for round in 0..4 {
        let behavior = if round == 2 { "kill" } else { "pause" };
        let disturb = async |session: &Session| {
            for request in ["/resume", "/pause", "/resume", "/interrupt", "/resume"] {
                session.post(request, json!({})).await;
                session.post("/messages/queue", json!({ "content": "And now?", "priority": "Queued" })).await;
            }
        };
        let start = async || {
            let reply = server.api().post("/api/agents/sessions", work(&server, &endless())).await;
            server.api().session(reply.body["session"]["id"].as_str().unwrap())
        };
        let pulled = async || pull(&server, all(), behavior).await;
        let disturbed = futures_util::future::join_all(sessions.iter().map(disturb));
        let (brake, new, _) = futures_util::future::join3(pulled(), start(), disturbed).await;
        let before = stopped(&server, &brake).await;
        futures_util::future::join_all(sessions.iter().map(disturb)).await;
        let after = server.api().get(&path(&brake, "")).await.expect(200).body;
        assert_eq!(after["confirmedCount"], before["confirmedCount"], "round {round}: {after:#}");
        let released = release(&server, &brake).await;
        brakes.push((after["sessions"].clone(), released));
        new.until("its agent", |v| v["currentRun"]["ordinal"].is_number()).await;
        sessions.push(new);
        for session in &sessions {
            session.until("the release", |v| v["heldBy"].is_null()).await;
        }
    }
    for session in &sessions {
        let lines = session.activity().await;
        let mut lines: Vec<_> =
            lines.iter().map(|line| line["summary"].as_str().unwrap().to_owned()).collect();
        if lines.first().is_some_and(|line| !line.starts_with("Created")) {
            lines.reverse();
        }
        let mut stopped = false;
        let mut held = false;
        for line in &lines {
            match line.as_str() {
                line if line.starts_with("An emergency brake") => held = true,
                "The emergency brake is released" => (held, stopped) = (false, false),
                "Paused" | "Interrupted" => stopped = held,
                line => assert!(!(stopped && line.starts_with("Running")), "{line}: {lines:#?}"),
            }
            assert!(!line.contains("acted after it had been stopped"), "{lines:#?}");
        }
    }
}
