//! Skills, memory pills, consolidation and hot loading (S0 8.4 `AgentSkill`, 8.9; decisions 25, 29, 38).

use pilothouse_local_keys::DEFAULT_OWNER;
use pilothouse_tests::{Api, PATIENCE, Reply, Session};
use reqwest::Method;
use serde_json::{Value, json};

use crate::notifications::until_published;
use crate::scripts::{endless, say, script, short, turn, works_until_message};
use crate::server::{Server, started, work};

const SKILLS: &str = "/api/agents/skills";
const NOBODY: &str = "01900000-0000-7000-8000-000000000000";

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Runs it",
        "inputSchema": r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
        "serverUri": "https://tools.example.com/mcp",
    })
}

async fn skill(api: &Api, name: &str, instructions: &str) -> Value {
    let body = json!({ "name": name, "description": "For tests", "instructions": instructions });
    api.post(SKILLS, body).await.expect(201).body
}

fn id(skill: &Value) -> &str {
    skill["id"].as_str().unwrap()
}

fn path(skill: &Value, rest: &str) -> String {
    format!("{SKILLS}/{}{rest}", id(skill))
}

async fn put(api: &Api, path: &str, body: Value) -> Reply {
    api.send(Method::PUT, path, &[], Some(body.to_string().into_bytes())).await
}

/// The agent reports its configuration, at the start and after every message.
fn configuration_script() -> Value {
    let mut plays = script(&[turn(&[say("{{configuration}}")])]);
    plays["onMessage"] = json!([say("{{configuration}}")]);
    plays
}

async fn start_with(server: &Server, plays: &Value, skills: &[&Value]) -> Reply {
    let mut body = work(server, plays);
    body["skillIds"] = skills.iter().map(|skill| skill["id"].clone()).collect();
    server.api().post("/api/agents/sessions", body).await
}

async fn session_with(server: &Server, plays: &Value, skills: &[&Value]) -> Session {
    let reply = start_with(server, plays, skills).await;
    assert!(matches!(reply.status, 201 | 202), "{}", reply.text);
    Session::of_start(&server.api(), reply.body)
}

async fn records(agent: &Api, skill: &Value, content: &str) -> Reply {
    let body = json!({ "content": content, "category": "Tip" });
    agent.post(&format!("/api/agent/skills/{}/memory-pills", id(skill)), body).await
}

async fn until(session: &Session, skill: &Value, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let look = async || {
        let skill = session.api.get(&path(skill, "")).await.expect(200).body;
        condition(&skill).then_some(skill)
    };
    session.until_within(PATIENCE, what, look).await
}

#[tokio::test]
async fn a_skill_is_created_changed_listed_and_deactivated() {
    let server = Server::start(1).await;
    let api = server.api();
    let first = skill(&api, "testing", "Test first.").await;
    assert_eq!(
        (&first["version"], &first["isActive"], &first["revision"]),
        (&json!(1), &json!(true), &json!(1))
    );
    let body = json!({ "name": "testing", "description": "x" });
    api.post(SKILLS, body).await.refused(409, "name-taken");
    skill(&api, "Alpha", "").await;

    let added = api.post(&path(&first, "/tools"), tool("lint")).await.expect(201).body;
    assert_eq!(added["toolDefinitions"], json!([tool("lint")]));
    let mut other = tool("lint");
    other["serverUri"] = json!("https://other.example.com/");
    api.post(&path(&first, "/tools"), other).await.refused(409, "name-taken");
    let agent =
        json!({ "name": "runner", "description": "Runs", "modelId": "m", "toolDefinitions": [tool("t")] });
    api.post(&path(&first, "/sub-agents"), agent).await.expect(201);
    let listed = api.all(SKILLS).await;
    let names: Vec<_> = listed.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Alpha", "testing"]);
    let counts = [&listed[1]["toolCount"], &listed[1]["subAgentCount"], &listed[1]["activePillCount"]];
    assert_eq!(counts, [&json!(1), &json!(1), &json!(0)]);
    api.delete(&path(&first, "/tools/lint")).await.expect(200);
    api.delete(&path(&first, "/tools/lint")).await.refused(404, "not-found");
    api.delete(&path(&first, "/sub-agents/runner")).await.expect(200);

    let changed =
        put(&api, &path(&first, ""), json!({ "name": "tests", "instructions": "Test much." })).await;
    let changed = changed.expect(200);
    assert_eq!((&changed.body["name"], &changed.body["version"]), (&json!("tests"), &json!(1)));
    assert_eq!(changed.body["description"], "For tests");
    let described = put(&api, &path(&first, ""), json!({ "description": "How we test" })).await.expect(200);
    assert_eq!(
        (&described.body["name"], &described.body["description"], &described.body["version"]),
        (&json!("tests"), &json!("How we test"), &json!(1))
    );
    put(&api, &path(&first, ""), json!({ "name": "Alpha" })).await.refused(409, "name-taken");
    // The old name is free again, and an old version is refused.
    skill(&api, "testing", "").await;
    let stale = [("if-match", "\"1\"")];
    let body = Some(b"{\"description\":\"late\"}".to_vec());
    api.send(Method::PUT, &path(&first, ""), &stale, body).await.refused(412, "precondition-failed");

    for _ in 0..2 {
        let off = api.post(&path(&first, "/deactivate"), json!({})).await.expect(200).body;
        assert_eq!(off["isActive"], false);
    }
    assert_eq!(api.all(&format!("{SKILLS}?isActive=false")).await.len(), 1);
    assert_eq!(api.all(&format!("{SKILLS}?isActive=true")).await.len(), 2);
    api.get(&format!("{SKILLS}?isActive=perhaps")).await.refused(422, "validation-failed");
    let on = api.post(&path(&first, "/activate"), json!({})).await.expect(200).body;
    assert_eq!(on["isActive"], true);
}

/// Other contexts receive the events of a skill (S0 8.6).
#[tokio::test]
async fn events_of_a_skill_name_it_and_its_owner() {
    let server = Server::start(1).await;
    let api = server.api();
    let skill = skill(&api, "testing", "Test first.").await;
    for change in [json!({ "description": "How we test" }), json!({ "instructions": "Test much." })] {
        put(&api, &path(&skill, ""), change).await.expect(200);
    }
    for command in ["/deactivate", "/activate"] {
        api.post(&path(&skill, command), json!({})).await.expect(200);
    }
    let (feed, owner) = (api.session("none"), server.owner(DEFAULT_OWNER));
    for (event, field, value) in [
        ("AgentSkillCreatedEvent", "name", json!("testing")),
        ("AgentSkillUpdatedEvent", "skillId", skill["id"].clone()),
        ("AgentSkillInstructionsUpdatedEvent", "newVersion", json!(1)),
        ("AgentSkillDeactivatedEvent", "skillId", skill["id"].clone()),
        ("AgentSkillActivatedEvent", "skillId", skill["id"].clone()),
    ] {
        let mut detail = json!({ "skillId": skill["id"], "ownerId": owner.as_str() });
        detail[field] = value;
        assert_eq!(until_published(&feed, event).await, detail, "{event}");
    }
}

#[tokio::test]
async fn invalid_skill_reports_all_violations() {
    let server = Server::start(1).await;
    let mut bad = tool("");
    bad["inputSchema"] = json!(r#"{"type":"text"}"#);
    bad["serverUri"] = json!("tools.example.com");
    let body = json!({ "name": "x".repeat(101), "description": "", "toolDefinitions": [bad], "colour": 1 });
    let refusal = server.api().post(SKILLS, body).await.refused(422, "validation-failed");
    assert_eq!(
        refusal.violated(),
        [
            "colour",
            "description",
            "name",
            "toolDefinitions[0].inputSchema",
            "toolDefinitions[0].name",
            "toolDefinitions[0].serverUri"
        ]
    );
    assert_eq!(server.api().all(SKILLS).await, Vec::<Value>::new());
    let twice = json!({ "name": "x", "description": "x", "toolDefinitions": [tool("a"), tool("a")] });
    server.api().post(SKILLS, twice).await.refused(409, "name-taken");
}

/// A retry with the same key returns the first response (ARCHITECTURE.md, The path of a command).
#[tokio::test]
async fn repeated_create_with_one_key_creates_one_skill() {
    let server = Server::start(1).await;
    let body = json!({ "name": "once", "description": "x" }).to_string().into_bytes();
    let key = [("idempotency-key", "k1")];
    let send = async || server.api().send(Method::POST, SKILLS, &key, Some(body.clone())).await.expect(201);
    let (first, second) = (send().await, send().await);
    assert_eq!(first.body, second.body);
    assert_eq!(second.header("idempotency-replayed"), "true");
}

#[tokio::test]
async fn skill_of_another_owner_is_not_found() {
    let mut server = Server::start(1).await;
    server.serve("someone-else");
    let (mine, theirs) = (server.api(), server.api_of("someone-else"));
    let foreign = skill(&theirs, "theirs", "Secret.").await;
    mine.get(&path(&foreign, "")).await.refused(404, "not-found");
    put(&mine, &path(&foreign, ""), json!({ "name": "mine" })).await.refused(404, "not-found");
    mine.get(&path(&foreign, "/memory-pills")).await.refused(404, "not-found");
    mine.delete(&path(&foreign, &format!("/memory-pills/{NOBODY}"))).await.refused(404, "not-found");
    mine.post(&path(&foreign, "/deactivate"), json!({})).await.refused(404, "not-found");
    mine.post(&path(&foreign, "/tools"), tool("t")).await.refused(404, "not-found");
    let body = work(&server, &short());
    let body = json!({ "workingDirectory": body["workingDirectory"], "budgetCapUsd": "1" });
    mine.post(&path(&foreign, "/consolidate"), body).await.refused(404, "not-found");
    mine.get(&format!("{SKILLS}/nothing")).await.refused(404, "not-found");
    assert_eq!(mine.all(SKILLS).await, Vec::<Value>::new());
    // Other owners may use the same name.
    skill(&mine, "theirs", "").await;

    let refused = start_with(&server, &short(), &[&foreign]).await.refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["skillIds[0]"]);
    assert!(refused.text.contains(id(&foreign)));
    let session = started(&server, &short()).await;
    session.until_status("Idle").await;
    session.post(&format!("/skills/{}/enable", id(&foreign)), json!({})).await.refused(404, "not-found");
    let agent = server.api_with(Some(session.api_key().to_owned()));
    records(&agent, &foreign, "stolen").await.refused(404, "not-found");
}

/// The prompt follows the order of `skillIds`, and the first definition of a name wins (decision 38).
#[tokio::test]
async fn session_starts_with_its_skills_in_order() {
    let server = Server::start(1).await;
    let api = server.api();
    let (a, b) = (skill(&api, "a", "Do A.").await, skill(&api, "b", "Do B.").await);
    let off = skill(&api, "off", "").await;
    for skill in [&a, &b] {
        api.post(&path(skill, "/tools"), tool("shared")).await.expect(201);
    }
    api.post(&path(&a, "/tools"), tool("own")).await.expect(201);
    let agent = json!({ "name": "runner", "description": "Runs", "modelId": "m" });
    api.post(&path(&a, "/sub-agents"), agent).await.expect(201);
    api.post(&path(&off, "/deactivate"), json!({})).await.expect(200);

    let unknown = json!({ "id": NOBODY });
    let refused = start_with(&server, &configuration_script(), &[&a, &off, &unknown])
        .await
        .refused(422, "validation-failed");
    assert_eq!(refused.violated(), ["skillIds[1]", "skillIds[2]"]);
    assert!(refused.text.contains(id(&off)) && refused.text.contains(NOBODY), "{}", refused.text);

    let session = session_with(&server, &configuration_script(), &[&b, &a]).await;
    let view = session.until_status("Idle").await;
    assert_eq!(view["enabledSkillIds"], json!([b["id"], a["id"]]));
    let said = &session.said().await[0];
    let place = |part: &str| said.find(part).unwrap_or_else(|| panic!("no {part} in {said}"));
    assert!(said.contains("custom tools: shared, own\nsubagents: runner"), "{said}");
    assert!(place("# Skill: b") < place("Do B.") && place("Do B.") < place("# Skill: a"), "{said}");
    assert!(place("Do A.") < place("<handoff_document>"), "{said}");
}

#[tokio::test]
async fn a_skill_is_loaded_into_an_idle_session() {
    let server = Server::start(1).await;
    let api = server.api();
    let late = skill(&api, "late", "Be late.").await;
    api.post(&path(&late, "/tools"), tool("catch_up")).await.expect(201);
    let agent = json!({ "name": "latecomer", "description": "Runs", "modelId": "m" });
    api.post(&path(&late, "/sub-agents"), agent).await.expect(201);
    // What the skill adds to the configuration.
    let parts = ["Be late.", "custom tools: catch_up\nsubagents: latecomer\n"];
    let session = started(&server, &configuration_script()).await;
    session.until_status("Idle").await;
    let said = session.said().await;
    assert!(parts.iter().all(|part| !said[0].contains(part)), "{said:?}");

    let enable = format!("/skills/{}/enable", id(&late));
    let view = session.post(&enable, json!({})).await.expect(200).body;
    assert_eq!((&view["enabledSkillIds"], &view["reloadNeeded"]), (&json!([late["id"]]), &json!(true)));
    assert_eq!(session.post(&enable, json!({})).await.expect(200).body["version"], view["version"]);
    let reloading = session.post("/reload", json!({})).await.expect(202).body;
    assert_eq!(reloading["reloading"], true);
    // The message is held until the reload is confirmed.
    session.say("What do you know?", "Queued").await;
    session.until("the reload", |v| v["reloading"] == false && v["reloadNeeded"] == false).await;
    session.until("the second turn", |v| v["metrics"]["turnCount"] == 2).await;
    let said = session.said().await;
    assert!(parts.iter().all(|part| said[1].contains(part)), "{said:?}");
    let lines = session.activity().await;
    let kinds: Vec<_> = lines.iter().map(|l| l["type"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"SkillEnabled"), "{kinds:?}");
    assert!(lines.iter().any(|l| l["summary"] == "The new configuration is active"), "{lines:?}");

    session.until_status("Idle").await;
    let off = session.delete(&format!("/skills/{}", id(&late))).await.expect(200).body;
    assert_eq!(off["enabledSkillIds"], json!([]));
    session.delete(&format!("/skills/{}", id(&late))).await.refused(404, "skill-not-enabled");
    api.post(&path(&late, "/deactivate"), json!({})).await.expect(200);
    session.post(&enable, json!({})).await.refused(409, "skill-inactive");
    // Until a reload, the process keeps the configuration that it has.
    session.say("And still?", "Queued").await;
    session.until("the third turn", |v| v["metrics"]["turnCount"] == 3).await;
    let said = session.said().await;
    assert!(parts.iter().all(|part| said[2].contains(part)), "{said:?}");
    session.until_status("Idle").await;
    session.post("/reload", json!({})).await.expect(202);
    session.until("the reload", |v| v["reloading"] == false).await;
    session.say("And now?", "Queued").await;
    session.until("the fourth turn", |v| v["metrics"]["turnCount"] == 4).await;
    let said = session.said().await;
    assert!(parts.iter().all(|part| !said[3].contains(part)), "{said:?}");
}

#[tokio::test]
async fn skills_of_a_running_session_do_not_change() {
    let server = Server::start(1).await;
    let late = skill(&server.api(), "late", "").await;
    let session = started(&server, &endless()).await;
    session.until_said("Working.").await;
    session
        .post(&format!("/skills/{}/enable", id(&late)), json!({}))
        .await
        .refused(409, "invalid-transition");
    session.post("/reload", json!({})).await.refused(409, "invalid-transition");
    session.post("/interrupt", json!({})).await;
    session.until_status("Interrupted").await;
    session.post(&format!("/skills/{}/enable", id(&late)), json!({})).await.expect(200);
    session.post("/reload", json!({})).await.expect(202);
    session.until("the reload", |v| v["reloading"] == false && v["status"] == "Interrupted").await;
}

#[tokio::test]
async fn agents_record_memory_pills() {
    let server = Server::start(1).await;
    let api = server.api();
    let lore = skill(&api, "lore", "").await;
    let session = session_with(&server, &works_until_message(), &[&lore]).await;
    session.until_said("Working.").await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let pill_path = format!("/api/agent/skills/{}/memory-pills", id(&lore));

    let mut ids = Vec::new();
    for n in 0..5 {
        let recorded = records(&agent, &lore, &format!("lesson {n}")).await.expect(201).body;
        ids.insert(0, recorded["pillId"].clone());
    }
    // A repeated request with the same key records the pill once.
    let body = Some(json!({ "content": "once", "category": "Mistake" }).to_string().into_bytes());
    let key = [("idempotency-key", "k1")];
    let first = agent.send(Method::POST, &pill_path, &key, body.clone()).await.expect(201).body;
    assert_eq!(agent.send(Method::POST, &pill_path, &key, body).await.expect(201).body, first);
    ids.insert(0, first["pillId"].clone());
    let refused = agent.post(&pill_path, json!({ "content": "", "category": "Rumour" })).await;
    assert_eq!(refused.refused(422, "validation-failed").violated(), ["category", "content"]);
    records(&agent, &json!({ "id": NOBODY }), "x").await.refused(404, "not-found");
    let stranger = server.api_with(Some(format!("{}0", session.api_key())));
    records(&stranger, &lore, "x").await.refused(401, "unauthenticated");
    let noted =
        |l: &Value| l["summary"].as_str().is_some_and(|s| s.contains("recorded a memory pill (Mistake)"));
    assert_eq!(session.activity().await.iter().filter(|l| noted(l)).count(), 1);

    let listed = api.all(&path(&lore, "/memory-pills")).await;
    assert_eq!(listed.iter().map(|p| p["id"].clone()).collect::<Vec<_>>(), ids);
    assert_eq!(listed[0]["sessionId"], session.id.as_str());
    assert_eq!((&listed[0]["category"], &listed[0]["status"]), (&json!("Mistake"), &json!("Active")));
    let dismiss = |id: &Value| path(&lore, &format!("/memory-pills/{}", id.as_str().unwrap()));
    api.delete(&dismiss(&ids[2])).await.expect(200);
    api.delete(&dismiss(&ids[2])).await.refused(409, "pill-not-active");
    api.delete(&dismiss(&json!(NOBODY))).await.refused(404, "not-found");
    let owner = server.owner(DEFAULT_OWNER);
    assert_eq!(
        until_published(&session, "MemoryPillRecordedEvent").await,
        json!({ "skillId": lore["id"], "pillId": ids[5], "sessionId": session.id, "category": "Tip",
            "ownerId": owner.as_str() })
    );
    assert_eq!(
        until_published(&session, "MemoryPillDismissedEvent").await,
        json!({ "skillId": lore["id"], "pillId": ids[2], "ownerId": owner.as_str() })
    );

    // Dismissed pills stay in the list, which has one order on all pages.
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&path(&lore, &format!("/memory-pills?limit=2{cursor}"))).await.expect(200).body;
        paged.extend(page["items"].as_array().unwrap().iter().map(|p| p["id"].clone()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, ids);
    let of = async |status: &str| api.all(&path(&lore, &format!("/memory-pills?status={status}"))).await;
    assert_eq!(
        (of("Active").await.len(), of("Dismissed").await.len(), of("Consolidated").await.len()),
        (5, 1, 0)
    );
    assert_eq!(api.all(SKILLS).await[0]["activePillCount"], 5);
    api.get(&path(&lore, "/memory-pills?status=Old")).await.refused(422, "validation-failed");
    let shown = api.get(&path(&lore, "")).await.expect(200).body["memoryPills"].clone();
    assert_eq!(shown.as_array().unwrap().len(), 6, "a skill shows its pills of all statuses");
}

/// Concurrently recorded pills are all stored once, although they share the skill and the session.
#[tokio::test]
async fn concurrently_recorded_pills_are_all_kept() {
    let server = Server::start(1).await;
    let api = server.api();
    let lore = skill(&api, "lore", "").await;
    let session = started(&server, &works_until_message()).await;
    session.until_said("Working.").await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let all = (0..8).map(|n| {
        let (agent, lore) = (agent.clone(), lore.clone());
        tokio::spawn(async move { records(&agent, &lore, &format!("lesson {n}")).await })
    });
    for recorded in all.collect::<Vec<_>>() {
        recorded.await.unwrap().expect(201);
    }
    let mut contents: Vec<_> = api
        .all(&path(&lore, "/memory-pills"))
        .await
        .iter()
        .map(|pill| pill["content"].as_str().unwrap().to_owned())
        .collect();
    contents.sort();
    assert_eq!(contents, (0..8).map(|n| format!("lesson {n}")).collect::<Vec<_>>());
}

/// The session has started to consolidate two pills of the skill.
async fn consolidating(server: &Server) -> (Value, Vec<Value>, Session) {
    let api = server.api();
    let lore = skill(&api, "lore", "Old.").await;
    let teacher = started(server, &works_until_message()).await;
    teacher.until_said("Working.").await;
    let agent = server.api_with(Some(teacher.api_key().to_owned()));
    let mut pills = Vec::new();
    for n in 0..2 {
        pills.push(records(&agent, &lore, &format!("lesson {n}")).await.expect(201).body["pillId"].clone());
    }
    let body = json!({ "pillIds": pills, "updatedInstructions": "Mine." });
    let hand_in = format!("/api/agent/skills/{}/consolidation", id(&lore));
    agent.post(&hand_in, body).await.refused(409, "not-consolidating");
    let session = consolidation_of(server, &lore).await;
    session.until_status("Idle").await;
    (lore, pills, session)
}

async fn consolidation_of(server: &Server, skill: &Value) -> Session {
    let reply = server.api().post(&path(skill, "/consolidate"), consolidation(server)).await;
    assert!(matches!(reply.status, 201 | 202), "{}", reply.text);
    Session::of_start(&server.api(), reply.body)
}

fn consolidation(server: &Server) -> Value {
    let work = work(server, &configuration_script());
    json!({
        "workingDirectory": work["workingDirectory"],
        "adapterOptions": work["adapterOptions"],
        "budgetCapUsd": "1",
    })
}

#[tokio::test]
async fn consolidation_merges_pills_after_the_owner_approves() {
    let server = Server::start(1).await;
    let api = server.api();
    let empty = skill(&api, "empty", "").await;
    api.post(&path(&empty, "/consolidate"), consolidation(&server))
        .await
        .refused(409, "nothing-to-consolidate");
    let refused = api.post(&path(&empty, "/consolidate"), json!({ "budgetCapUsd": "0" })).await;
    let violated = refused.refused(422, "validation-failed").violated();
    assert_eq!(violated, ["budgetCapUsd", "workingDirectory"]);

    let (lore, pills, session) = consolidating(&server).await;
    assert!(session.view().await["objective"].as_str().unwrap().starts_with("Skill Improvement"));
    assert_eq!(session.view().await["consolidatesSkillId"], lore["id"]);
    let said = &session.said().await[0];
    for part in ["Old.", "lesson 0", "lesson 1", pills[0].as_str().unwrap(), "<handoff_document>"] {
        assert!(said.contains(part), "no {part} in {said}");
    }
    let again = api.post(&path(&lore, "/consolidate"), consolidation(&server)).await;
    let again = again.refused(409, "consolidation-under-way");
    assert!(again.text.contains(&session.id), "{}", again.text);
    put(&api, &path(&lore, ""), json!({ "instructions": "Mine." }))
        .await
        .refused(409, "consolidation-under-way");

    let agent = server.api_with(Some(session.api_key().to_owned()));
    let hand_in = format!("/api/agent/skills/{}/consolidation", id(&lore));
    let propose = async |pills: &Value, text: &str| {
        agent.post(&hand_in, json!({ "pillIds": pills, "updatedInstructions": text })).await
    };
    propose(&json!([]), "x").await.refused(409, "nothing-to-consolidate");
    propose(&json!([NOBODY]), "x").await.refused(409, "pill-not-active");
    propose(&json!(["none"]), "x").await.refused(422, "validation-failed");
    propose(&json!(pills), "Draft.").await.expect(202);
    propose(&json!([pills[0]]), "New.").await.expect(202);
    let view = api.get(&path(&lore, "")).await.expect(200).body;
    assert_eq!((&view["instructions"], &view["version"]), (&json!("Old."), &json!(1)));
    assert_eq!(view["consolidation"]["proposal"]["updatedInstructions"], "New.");

    session.post("/close", json!({})).await.expect(200);
    let view = until(&session, &lore, "the consolidation", |skill| skill["version"] == 2).await;
    assert_eq!((&view["instructions"], view.get("consolidation")), (&json!("New."), None));
    let left = view["memoryPills"].as_array().unwrap().iter().filter(|pill| pill["status"] == "Active");
    let left: Vec<_> = left.map(|pill| pill["id"].clone()).collect();
    assert_eq!(left, [pills[1].clone()]);
    let listed = &api.all(SKILLS).await[1];
    assert_eq!((&listed["name"], &listed["version"]), (&json!("lore"), &json!(2)));
    let done = api.all(&path(&lore, "/memory-pills?status=Consolidated")).await;
    assert_eq!((&done[0]["id"], done.len()), (&pills[0], 1));
    assert!(done[0]["consolidatedAt"].is_string());
    assert_eq!(
        until_published(&session, "SkillConsolidatedEvent").await,
        json!({ "skillId": lore["id"], "ownerId": server.owner(DEFAULT_OWNER).as_str(), "newVersion": 2,
            "consolidatedPillCount": 1 })
    );
    api.delete(&path(&lore, &format!("/memory-pills/{}", pills[0].as_str().unwrap())))
        .await
        .refused(409, "pill-not-active");
}

/// Of two concurrent starts one succeeds, and there is one session.
#[tokio::test]
async fn only_one_consolidation_runs_at_a_time() {
    let server = Server::start(1).await;
    let api = server.api();
    let lore = skill(&api, "lore", "Old.").await;
    let teacher = started(&server, &works_until_message()).await;
    teacher.until_said("Working.").await;
    let agent = server.api_with(Some(teacher.api_key().to_owned()));
    records(&agent, &lore, "lesson").await.expect(201);
    let begin = || {
        let (api, path, body) = (api.clone(), path(&lore, "/consolidate"), consolidation(&server));
        tokio::spawn(async move { api.post(&path, body).await.status })
    };
    let (first, second) = (begin(), begin());
    let mut statuses = [first.await.unwrap(), second.await.unwrap()];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    let improving = |s: &&Value| s["name"] == "Improve lore";
    assert_eq!(api.all("/api/agents/sessions").await.iter().filter(improving).count(), 1);
}

#[tokio::test]
async fn retried_consolidation_continues() {
    let server = Server::start(1).await;
    let api = server.api();
    let (lore, pills, session) = consolidating(&server).await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let hand_in = format!("/api/agent/skills/{}/consolidation", id(&lore));
    let body = json!({ "pillIds": pills, "updatedInstructions": "New." });
    agent.post(&hand_in, body.clone()).await.expect(202);
    let output = json!({ "outputLineCount": 1, "filesChanged": 0, "testsAdded": 0, "allTestsPassing": true });
    agent.post(&format!("/api/agent/sessions/{}/output", session.id), output).await.expect(202);
    let view = session.until("output", |view| view["hasPendingReview"] == true).await;
    let output = view["output"]["outputId"].clone();
    session.post("/reject", json!({ "outputId": output })).await.expect(200);
    until(&session, &lore, "the end of it", |skill| skill.get("consolidation").is_none()).await;
    let retried = session.post("/retry", json!({})).await.expect(202).body;
    let again = until(&session, &lore, "its beginning", |skill| skill.get("consolidation").is_some()).await;
    assert_eq!(again["consolidation"]["sessionId"], session.id.as_str());
    assert_eq!(again["consolidation"].get("proposal"), None, "the rejected proposal is gone");
    session.until_status("Idle").await;
    let agent = server.api_with(Some(retried["apiKey"].as_str().unwrap().to_owned()));
    agent.post(&hand_in, body).await.expect(202);
    session.post("/close", json!({})).await.expect(200);
    until(&session, &lore, "the consolidation", |skill| skill["version"] == 2).await;
    assert_eq!(api.all(&path(&lore, "/memory-pills?status=Consolidated")).await.len(), 2);
}

#[tokio::test]
async fn cancelled_consolidation_changes_nothing_and_allows_another() {
    let server = Server::start(1).await;
    let api = server.api();
    let (lore, pills, session) = consolidating(&server).await;
    let agent = server.api_with(Some(session.api_key().to_owned()));
    let body = json!({ "pillIds": pills, "updatedInstructions": "New." });
    agent.post(&format!("/api/agent/skills/{}/consolidation", id(&lore)), body).await.expect(202);
    session.post("/cancel", json!({})).await;
    session.until_status("Cancelled").await;
    let view = until(&session, &lore, "the end of it", |skill| skill.get("consolidation").is_none()).await;
    assert_eq!((&view["instructions"], &view["version"]), (&json!("Old."), &json!(1)));
    assert_eq!(view["memoryPills"].as_array().unwrap().len(), 2);
    put(&api, &path(&lore, ""), json!({ "instructions": "Mine." })).await.expect(200);
    consolidation_of(&server, &lore).await.until_status("Idle").await;
}
