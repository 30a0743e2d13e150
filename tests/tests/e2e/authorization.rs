//! Verdicts on tool calls of a project's agents (S2, "Control Mode Enforcement"; decisions 69, 70, 75).

use std::collections::BTreeMap;

use pilothouse_tests::{Api, PATIENCE, Session};
use serde_json::{Value, json};

use crate::projects::{project, spawned};
use crate::scripts::{endless, say, script, turn};
use crate::server::{Server, started};

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({ "tool": { "id": id, "name": tool, "input": input, "result": "done" } })
}

async fn log_of(server: &Server, project: &Value) -> Vec<Value> {
    let path = format!("/api/projects/{}/decision-log", project["id"].as_str().unwrap());
    server.api().all(&path).await
}

/// The verdicts on the calls of a project's agents, by the id of the call.
async fn verdicts(server: &Server, project: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let log = log_of(server, project).await.into_iter().filter(|entry| entry["type"] == "verdict");
    log.map(|entry| (text(&entry["toolCallId"]), text(&entry["verdict"]))).collect()
}

async fn reject(session: &Session, decision: &Value) {
    resolve(&session.api, decision, json!({ "resolutionType": "reject" })).await;
}

/// A new agent in adaptive mode reads and builds freely, and is asked before it deletes, deploys or reaches beyond its folder.
#[tokio::test]
async fn effects_of_a_call_decide_whether_a_person_is_asked() {
    let harmless = ["ls -la", "git status", "cargo test", "rg TODO src"];
    let risky = ["rm -rf build", "git push --force", "sudo systemctl stop nginx", "sh -c 'rm -rf /'"];
    let server = Server::start(1).await;
    let shop = project(&server.api(), "Shop").await;
    let mut steps: Vec<_> =
        harmless.into_iter().chain(risky).map(|command| bash(command, command, "done")).collect();
    steps.extend([call("unknown", "NoSuchTool", &json!({})), say("Done.")]);
    let (agent_id, session) = spawned(&server, &shop, "Builder", &script(&[turn(&steps)])).await;
    for asked in risky.into_iter().chain(["unknown"]) {
        reject(&session, &asked_about(&session, asked).await).await;
    }
    session.until_said("Done.").await;
    let verdicts = verdicts(&server, &shop).await;
    for (commands, expected) in [(harmless, "allow"), (risky, "ask")] {
        for command in commands {
            assert_eq!(verdicts[command], expected, "{command}");
        }
    }
    assert_eq!(verdicts["unknown"], "ask");

    let log = log_of(&server, &shop).await;
    let removal = log.iter().find(|entry| entry["toolCallId"] == "rm -rf build").unwrap();
    assert_eq!((&removal["agentId"], &removal["mode"]), (&json!(agent_id), &json!("adaptive")));
    assert_eq!(removal["rule"], json!({ "type": "alwaysEscalate", "entry": "delete" }));
    assert_eq!(removal["effect"]["actionKind"], "delete");
}

/// A stricter mode holds for the next call of a running agent, and a more permissive one too.
#[tokio::test]
async fn a_changed_control_mode_holds_for_the_next_call() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let write = |id: &str| call(id, "Write", &json!({ "file_path": "notes.md", "content": "x" }));
    let plays = script(&[turn(&[
        write("adaptive"),
        bash("first", "rm -rf build", "done"),
        bash("reading", "ls", "done"),
        write("orchestrator"),
        write("ecosystem"),
        bash("second", "rm -rf build", "done"),
        say("Done."),
    ])]);
    let (_, session) = spawned(&server, &shop, "Builder", &plays).await;
    let first = asked_about(&session, "first").await;
    let current = api.get("/api/control-mode").await.expect(200).body;
    assert_eq!((&current["mode"], &current["revision"]), (&json!("adaptive"), &json!(0)));
    let stricter = api.put("/api/control-mode", json!({ "mode": "orchestrator" })).await.expect(200).body;
    assert_eq!((&stricter["mode"], &stricter["revision"]), (&json!("orchestrator"), &json!(1)));
    assert_eq!(api.get("/api/control-mode").await.expect(200).body, stricter);
    let same = api.put("/api/control-mode", json!({ "mode": "orchestrator" })).await.expect(200).body;
    assert_eq!(same["revision"], 1, "the same mode changes nothing");
    reject(&session, &first).await;

    let written = asked_about(&session, "orchestrator").await;
    let always = json!({ "resolutionType": "approve", "alwaysApprove": true });
    let path = format!("/api/decisions/{}/resolve", written["id"].as_str().unwrap());
    let refused = api.post(&path, always).await.expect(422);
    assert_eq!(refused.violated(), ["alwaysApprove"], "this mode asks about each change");
    api.put("/api/control-mode", json!({ "projectId": shop["id"], "mode": "ecosystem" })).await.expect(200);
    reject(&session, &written).await;
    reject(&session, &asked_about(&session, "second").await).await;
    session.until_said("Done.").await;
    let expected = [
        ("adaptive", "allow"),
        ("ecosystem", "allow"),
        ("first", "ask"),
        ("orchestrator", "ask"),
        ("reading", "allow"),
        ("second", "ask"),
    ];
    let expected = expected.map(|(id, verdict)| (id.to_owned(), verdict.to_owned()));
    assert_eq!(verdicts(&server, &shop).await, BTreeMap::from(expected));

    let look = async || {
        let log = log_of(&server, &shop).await;
        let modes: Vec<_> = log.into_iter().filter(|entry| entry["type"] == "control_mode").collect();
        (modes.len() == 2).then_some(modes)
    };
    let logged = session.until_within(PATIENCE, "mode changes in the log", look).await;
    assert_eq!((&logged[0]["from"], &logged[0]["to"]), (&json!("orchestrator"), &json!("ecosystem")));
}

/// The protocols of project and brief and the project's patterns apply, the stricter verdict wins.
#[tokio::test]
async fn protocols_and_patterns_of_a_project_change_verdicts() {
    let server = Server::start(1).await;
    let api = server.api();
    let orchestrator = json!({ "alwaysEscalate": ["search"] });
    let shop = api
        .post(
            "/api/projects",
            json!({
                "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }],
                "escalation": {
                    "adaptive": { "alwaysEscalate": ["read"], "neverEscalate": ["pattern:mail"] },
                    "orchestrator": orchestrator,
                },
                "toolPatterns": [{ "name": "mail", "toolPattern": "send_*", "actionKind": "network",
                    "defaultSeverity": "low", "defaultBlastRadius": "small", "defaultConfidence": 0.9 }],
            }),
        )
        .await
        .expect(201)
        .body;
    let plays = script(&[turn(&[
        bash("read", "cat README.md", "done"),
        call("send", "send_mail", &json!({})),
        call("remove", "delete_mail", &json!({})),
        call("again", "send_mail", &json!({})),
        say("Done."),
    ])]);
    let (agent_id, session) = spawned(&server, &shop, "Builder", &plays).await;
    reject(&session, &asked_about(&session, "read").await).await;
    let removal = asked_about(&session, "remove").await;
    let mut brief = api.get(&format!("/api/agents/{agent_id}")).await.expect(200).body["brief"].clone();
    brief["escalationProtocol"] = json!({ "alwaysEscalate": ["send_mail"] });
    api.patch(&format!("/api/agents/{agent_id}/brief"), brief).await.expect(200);
    reject(&session, &removal).await;
    reject(&session, &asked_about(&session, "again").await).await;
    session.until_said("Done.").await;
    assert_eq!(verdicts(&server, &shop).await["send"], "allow");

    let path = format!("/api/projects/{}", shop["id"].as_str().unwrap());
    let changed =
        json!({ "escalation": { "adaptive": { "alwaysEscalate": ["delet"], "neverEscalate": ["*"] } } });
    let wrong = api.patch(&path, changed).await.expect(422);
    assert_eq!(wrong.violated(), ["escalation.adaptive.neverEscalate[0]"]);
    let changed = json!({ "escalation": { "adaptive": { "alwaysEscalate": ["delet", "pattern:none"] } },
        "toolPatterns": [] });
    let wrong = api.patch(&path, changed).await.expect(422);
    let fields = ["escalation.adaptive.alwaysEscalate[0]", "escalation.adaptive.alwaysEscalate[1]"];
    assert_eq!(wrong.violated(), fields);
    let changed = json!({ "escalation": { "adaptive": null } });
    let updated = api.patch(&path, changed).await.expect(200).body;
    assert_eq!(updated["escalation"]["orchestrator"]["alwaysEscalate"], json!(["search"]), "others stay");
    assert_eq!(updated["escalation"].get("adaptive"), None);
}

/// A project can require a reason for each approval of a tool's calls. It is kept with the decision.
#[tokio::test]
async fn approval_of_a_tool_needs_the_reason_that_its_project_requires() {
    let server = Server::start(1).await;
    let api = server.api();
    let patterns = json!([{ "name": "mail", "toolPattern": "send_*", "actionKind": "network", "requiresRationale": true,
        "defaultSeverity": "high", "defaultBlastRadius": "small", "defaultConfidence": 0.9 }]);
    let shop =
        json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "API" }], "toolPatterns": patterns });
    let shop = api.post("/api/projects", shop).await.expect(201).body;
    let plays = script(&[turn(&[call("send", "send_mail", &json!({})), say("Done.")])]);
    let (_, session) = spawned(&server, &shop, "Builder", &plays).await;
    let asked = asked_about(&session, "send").await;
    assert_eq!(asked["verdict"]["requiresRationale"], true);
    let decision = format!("/api/decisions/{}", asked["id"].as_str().unwrap());
    let silent = api.post(&format!("{decision}/resolve"), json!({ "resolutionType": "approve" })).await;
    assert_eq!(silent.expect(422).violated(), ["rationale"]);
    let answers = json!([{ "question": asked["question"], "answer": asked["allow"] }]);
    let answer = json!({ "requestId": "send", "answers": answers });
    let silent = api.post(&format!("/api/agents/sessions/{}/answer", session.id), answer).await;
    assert_eq!(silent.expect(422).violated(), ["answers"]);
    let why = json!({ "resolutionType": "approve", "rationale": "The customer asked for it" });
    resolve(&api, &asked, why).await;
    session.until_said("Done.").await;
    let resolution = &api.get(&decision).await.expect(200).body["resolution"];
    assert_eq!(resolution["rationale"], "The customer asked for it");
}

pub(crate) fn bash(id: &str, command: &str, result: &str) -> Value {
    json!({ "tool": { "id": id, "name": "Bash", "input": { "command": command }, "result": result } })
}

/// The only pending decision of the session, once it is about this call.
pub(crate) async fn asked_about(session: &Session, call: &str) -> Value {
    let look = async || {
        let found = session.api.all(&format!("/api/decisions?session={}", session.id)).await;
        found.into_iter().find(|decision| decision["requestId"] == call)
    };
    session.until_within(PATIENCE, call, look).await
}

pub(crate) async fn resolve(api: &Api, decision: &Value, body: Value) {
    api.post(&format!("/api/decisions/{}/resolve", decision["id"].as_str().unwrap()), body).await.expect(202);
}

/// An agent runs what its mode allows and asks for the rest. Approvals are rejected, modified or given for the session; trust moves
/// with them; a stricter mode ends them; and the log explains each step.
#[tokio::test]
async fn calls_of_an_agent_run_or_wait_as_mode_trust_and_people_decide() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let plays = script(&[turn(&[
        bash("list", "ls", "a file"),
        bash("remove", "rm -rf build", "removed"),
        bash("install", "npm install", "installed"),
        bash("add", "npm install tea", "added"),
        bash("again", "npm install cups", "added again"),
        bash("clean", "rm -rf dist", "cleaned"),
        bash("last", "npm install spoons", "added last"),
        say("Done."),
    ])]);
    let (agent_id, session) = spawned(&server, &shop, "Builder", &plays).await;

    let removal = asked_about(&session, "remove").await;
    assert_eq!(removal["verdict"]["rule"], json!({ "type": "alwaysEscalate", "entry": "delete" }));
    assert_eq!(removal["verdict"]["effect"]["actionKind"], "delete");
    assert_eq!(removal["project"]["agentId"], agent_id.as_str());
    assert_ne!(removal["blastRadius"], "unknown", "the call is classified");
    resolve(&api, &removal, json!({ "resolutionType": "reject", "rationale": "keep it" })).await;

    let install = asked_about(&session, "install").await;
    assert_eq!(install["resolutions"], json!(["approve", "modify", "reject"]));
    let modified = json!({ "resolutionType": "modify", "modifiedInput": { "command": "npm ci" } });
    resolve(&api, &install, modified).await;

    let add = asked_about(&session, "add").await;
    resolve(&api, &add, json!({ "resolutionType": "approve", "alwaysApprove": true })).await;

    let clean = asked_about(&session, "clean").await;
    api.put("/api/control-mode", json!({ "mode": "orchestrator" })).await.expect(200);
    resolve(&api, &clean, json!({ "resolutionType": "approve" })).await;
    let last = asked_about(&session, "last").await;
    assert_eq!(last["verdict"]["rule"], json!({ "type": "alwaysEscalate", "entry": "execute" }));
    resolve(&api, &last, json!({ "resolutionType": "approve" })).await;
    session.until_said("Done.").await;

    let calls = session.tool_calls().await;
    let result = |id: &str| {
        calls.iter().find(|call| call["id"] == id).map(|call| call["result"]["content"].clone()).unwrap()
    };
    assert_eq!(result("list"), "a file");
    assert_eq!(result("remove"), "The owner of the session did not allow this: keep it");
    assert!(result("install").to_string().contains("npm ci"), "{}", result("install"));
    assert_eq!(result("again"), "added again", "covered by the approval for the session");

    let look = async || {
        let log = log_of(&server, &shop).await;
        (log.iter().filter(|entry| entry["type"] == "trust").count() == 5).then_some(log)
    };
    let log = session.until_within(PATIENCE, "five changes of trust", look).await;
    let outcomes: Vec<_> = log
        .iter()
        .rev()
        .filter(|entry| entry["type"] == "trust")
        .map(|entry| entry["change"]["outcome"].as_str().unwrap())
        .collect();
    let expected = [
        "human_rejects_tool_call",
        "human_modifies_tool_args",
        "human_approves_always",
        "human_approves_tool_call",
        "human_approves_tool_call",
    ];
    assert_eq!(outcomes, expected);
    let verdicts: Vec<_> = log
        .iter()
        .rev()
        .filter(|entry| entry["type"] == "verdict")
        .map(|entry| (entry["toolCallId"].as_str().unwrap(), entry["verdict"].as_str().unwrap()))
        .collect();
    let expected = [
        ("list", "allow"),
        ("remove", "ask"),
        ("install", "ask"),
        ("add", "ask"),
        ("again", "allow"),
        ("clean", "ask"),
        ("last", "ask"),
    ];
    assert_eq!(verdicts, expected);
    let again = log.iter().find(|entry| entry["toolCallId"] == "again").unwrap();
    assert_eq!(again["rule"], json!({ "type": "alwaysApprove", "decisionId": add["id"] }));
    let stored = serde_json::to_string(&log).unwrap();
    assert!(!stored.contains("npm ci") && !stored.contains("keep it"), "no inputs and texts: {stored}");
    let decisions = log.iter().filter(|entry| entry["type"] == "decision").count();
    assert_eq!((decisions, log.iter().filter(|entry| entry["type"] == "control_mode").count()), (5, 1));
}

/// While a brake stops an agent its requests cannot be resolved; after the release they can.
#[tokio::test]
async fn a_request_can_be_resolved_after_the_brake_is_released() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let plays = script(&[turn(&[bash("remove", "rm -rf build", "removed"), say("Done.")])]);
    let (_, session) = spawned(&server, &shop, "Builder", &plays).await;
    let asked = asked_about(&session, "remove").await;
    let brake = api
        .post("/api/brake", json!({ "scope": { "type": "all" }, "reason": "Look first" }))
        .await
        .expect(202);
    let path = format!("/api/decisions/{}/resolve", asked["id"].as_str().unwrap());
    api.post(&path, json!({ "resolutionType": "approve" })).await.refused(409, "braked");
    let brake = brake.body["id"].as_str().unwrap().to_owned();
    let suspended = async || {
        let suspended = api.all("/api/decisions?state=suspended").await;
        (suspended.len() == 1 && suspended[0]["brakeId"] == brake.as_str()).then_some(())
    };
    session.until_within(PATIENCE, "suspended", suspended).await;
    let counted = api.get("/api/decisions?counts=true").await.expect(200).body;
    assert_eq!((&counted["items"], &counted["counts"]["pending"]), (&json!([]), &json!(0)));
    api.post(&path, json!({ "resolutionType": "approve" })).await.refused(409, "braked");
    api.post(&format!("/api/brakes/{brake}/release"), json!({})).await.expect(200);
    let resolved = async || {
        let reply = api.post(&path, json!({ "resolutionType": "approve" })).await;
        (reply.status == 202).then_some(())
    };
    session.until_within(PATIENCE, "resolved", resolved).await;
    session.until_said("Done.").await;
    assert_eq!(session.tool_calls().await[0]["result"]["content"], "removed");
}

/// Neither an agent nor its owner gets verdicts, and other owners see nothing of the project.
#[tokio::test]
async fn verdicts_and_their_log_are_not_for_others() {
    let server = Server::start(1).await;
    let api = server.api();
    let shop = project(&api, "Shop").await;
    let (_, session) = spawned(&server, &shop, "Builder", &endless()).await;
    session.until_said("Working.").await;
    let path = format!("/api/agent/sessions/{}/authorize", session.id);
    let asked =
        json!({ "toolCallId": "t1", "tool": "Bash", "arguments": { "command": "ls" }, "home": "/root" });
    let agent = server.api_with(Some(session.api_key().to_owned()));
    agent.post(&path, asked.clone()).await.refused(401, "unauthenticated");
    api.post(&path, asked).await.refused(401, "unauthenticated");
    let outside = started(&server, &script(&[turn(&[bash("list", "rm -rf x", "done"), say("Done.")])])).await;
    outside.until_said("Done.").await;
    assert_eq!(log_of(&server, &shop).await, [] as [Value; 0], "a session outside of projects asks nobody");
    let log = format!("/api/projects/{}/decision-log", shop["id"].as_str().unwrap());
    let stranger = server.api_of("someone-else");
    stranger.get(&log).await.refused(404, "not-found");
    stranger.put("/api/control-mode", json!({ "mode": "ecosystem" })).await.expect(422);
    let mode = json!({ "projectId": shop["id"], "mode": "ecosystem" });
    assert_eq!(stranger.put("/api/control-mode", mode).await.expect(422).violated(), ["projectId"]);
}
