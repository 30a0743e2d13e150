//! An owner controls a project of four agents with different adapters: calls run or wait for a decision by mode and trust, and a brake
//! stops and resumes the agents (S2, "Control Mode Enforcement", "Emergency Brake"). The decision log explains each step.
//!
//! All processes are real; the models are scripted. Functions in the cloud cannot reach the scripted model, so this test needs the
//! embedded server. It is skipped where an agent is not installed (`tests/agents` installs them).

use pilothouse_model_server::{Conversation, ModelServer, Progress, Script, Step};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use crate::authorization::{bash, resolve};
use crate::brakes::{by_session, path};
use crate::leaks::asked;
use crate::scripts::{say, script, turn};
use crate::{agents_acp, agents_claude};

/// Divides the deadlines of commands: one that is not received is sent again after three seconds, and escalated after six.
const DIVISOR: u32 = 10;

/// The models of three agents. Gates hold the steps that depend on the owner.
fn models() -> Script {
    let conversation = |name: &str, progress, steps| Conversation {
        name: name.into(),
        progress,
        steps,
        ..Conversation::default()
    };
    let command = |tool: &str, command: &str| Step::tool(tool, json!({ "command": command }));
    let native = vec![
        command("bash", "ls"),
        command("bash", "rm -rf build"),
        Step::tool("write", json!({ "path": "notes.md", "content": "Cleaned.\n" })).waiting("write"),
        Step::text("Native is done.").waiting("end"),
    ];
    let claude = vec![
        command("Bash", "env"),
        command("Bash", "printenv HOME").waiting("trusted"),
        command("Bash", "ls").waiting("claude"),
        Step::text("Claude is done."),
    ];
    let acp = vec![
        command("Bash", "ls"),
        command("Bash", "rm -rf dist").waiting("ask"),
        Step::text("The ACP agent is done.").waiting("end"),
    ];
    let conversations = vec![
        // The process of this agent is ended, and the next one repeats its last request.
        conversation("native", Progress::History, native),
        conversation("claude", Progress::Order, claude),
        conversation("acp", Progress::Order, acp),
    ];
    Script { conversations, ..Script::default() }
}

/// The fourth agent is a script. It deletes a folder, and ignores the first pause after that.
fn scripted() -> Value {
    let ignore = json!({ "ignore": { "command": "pause", "untilRepeated": true } });
    script(&[turn(&[
        bash("list", "ls", "build"),
        bash("remove", "rm -rf build", "removed"),
        ignore,
        say("The script works."),
        json!({ "wait": 600_000 }),
    ])])
}

struct Agent {
    id: String,
    session: Session,
}

impl Agent {
    async fn asked(&self, text: &str) -> Value {
        asked(&self.session, text).await
    }

    async fn until_trust(&self, points: f64) {
        let path = format!("/api/trust/{}", self.id);
        let look = async || {
            let score = self.session.api.get(&path).await.expect(200).body["exactScore"].as_f64().unwrap();
            (score >= points).then_some(())
        };
        self.session.until_within(PATIENCE, &format!("trust {points}"), look).await;
    }
}

struct Story {
    server: ServerProcess,
    model: ModelServer,
    api: Api,
    project: Value,
    home: tempfile::TempDir,
}

impl Story {
    /// `None` if an agent is not installed.
    async fn begin() -> Option<Self> {
        let (claude, acp) = (agents_claude::binary()?, agents_acp::program()?);
        let home = tempfile::tempdir().unwrap();
        let model = ModelServer::start(models()).await.unwrap();
        let environment = [
            ("ANTHROPIC_BASE_URL", &*model.base_url()),
            ("ANTHROPIC_API_KEY", "a-key-of-a-test"),
            ("PILOTHOUSE_CLAUDE", claude.to_str().unwrap()),
            ("PILOTHOUSE_ACP_CLAUDE", acp.to_str().unwrap()),
        ];
        let server = ServerProcess::start_with(DIVISOR, &environment).await;
        let api = server.api();
        // Half a point below the trust from which actions that are not trivial need no person.
        let project = json!({
            "name": "Shop", "workstreams": [{ "id": "shop", "name": "The shop" }],
            "trust": { "config": { "initialScore": 69.5 } }, "tickConfig": { "mode": "manual" },
        });
        let project = api.post("/api/projects", project).await.expect(201).body;
        Some(Self { server, model, api, project, home })
    }

    /// Spawns an agent in a folder of its own, which contains an old build.
    async fn spawn(&self, adapter: &str, options: Value, template: Option<&Value>) -> Agent {
        let folder = self.server.work_folder().join(adapter);
        for file in ["build/old/a.o", "build/kept.o", "dist/shop.js"] {
            let file = folder.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        // The scripts have no steps for injections.
        let no_injections =
            json!({ "reactiveEvents": [], "periodicIntervalMinutes": null, "stalenessThreshold": null });
        let mut body = json!({
            "projectId": self.project["id"],
            "brief": { "role": adapter, "workstream": "shop", "adapter": adapter, "providerConfig": options,
                "contextInjectionPolicy": no_injections },
            "objective": format!("Tidy the shop. [[script:{adapter}]]"),
            "workingDirectory": folder,
            "budgetCapUsd": "5",
        });
        if let Some(template) = template {
            body["templateId"] = template["id"].clone();
        }
        let session = Session::spawn(&self.api, body).await;
        Agent { id: session.agent_id(), session }
    }

    /// Spawns an agent that hibernates when it is idle or waits for a second.
    async fn spawn_hibernating(&self, plays: &Value) -> Agent {
        let template = json!({
            "name": "Hibernates soon", "modelId": "small", "defaultBudgetCapUsd": "5", "adapter": "script",
            "idleTimeoutSeconds": 1, "allowedTools": ["Bash"],
        });
        let template = self.api.post("/api/agents/templates", template).await.expect(201).body;
        self.spawn("script", json!({ "script": plays }), Some(&template)).await
    }

    fn sidecar(&self, agent: &Value) -> Sidecar {
        let run = agent["currentRun"]["id"].as_str().unwrap();
        self.server.sidecars().into_iter().find(|sidecar| sidecar.run == run).unwrap()
    }

    async fn until_confirmed(&self, brake: &Value, count: usize) -> Value {
        let look = async || {
            let view = self.api.get(&path(brake, "")).await.expect(200).body;
            (view["confirmedCount"] == count).then_some(view)
        };
        self.api.session("none").until_within(PATIENCE, &format!("{count} confirmations"), look).await
    }

    /// The decision log of the project, oldest first.
    async fn log(&self) -> Vec<Value> {
        let path = format!("/api/projects/{}/decision-log", self.project["id"].as_str().unwrap());
        let mut log = self.api.all(&path).await;
        log.reverse();
        log
    }

    /// The verdicts on the calls of an agent with the types of their rules.
    async fn verdicts(&self, agent: &Agent) -> Value {
        let log = self.log().await;
        let of_agent = log.iter().filter(|it| it["type"] == "verdict" && it["agentId"] == agent.id.as_str());
        let verdicts = of_agent.map(|it| json!([it["tool"], it["verdict"], it["rule"]["type"]]));
        verdicts.collect::<Vec<_>>().into()
    }
}

async fn approve(agent: &Agent, decision: &Value) {
    resolve(&agent.session.api, decision, json!({ "resolutionType": "approve" })).await;
}

#[tokio::test]
async fn owner_controls_four_agents_of_a_project() {
    let Some(story) = Story::begin().await else { return };
    let quiet = json!({ "HOME": story.home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
    let native = story.spawn("native", json!({}), None).await;
    let claude = story.spawn("claude", json!({ "env": quiet }), None).await;
    let acp = story.spawn("acp", json!({ "env": quiet }), None).await;
    let scripted = story.spawn_hibernating(&scripted()).await;

    deletion_is_modified(&story, &native).await;
    approval_raises_trust(&story, &claude).await;
    approval_of_a_hibernated_agent_is_a_grant(&story, &scripted).await;
    stricter_mode_holds_for_the_next_write(&story, &native).await;
    let deletion = brake_stops_all_four(&story, [&scripted, &native, &claude, &acp]).await;
    release_resumes_what_the_brake_stopped(&story, [&scripted, &native, &claude, &acp], &deletion).await;
    log_explains_each_step(&story, [&scripted, &native, &claude, &acp]).await;
}

/// `ls` runs. The deletion waits for a decision, and the owner restricts it to a subfolder.
async fn deletion_is_modified(story: &Story, native: &Agent) {
    let removal = native.asked("rm -rf build").await;
    let modified = json!({ "resolutionType": "modify", "modifiedInput": { "command": "rm -rf build/old" } });
    resolve(&story.api, &removal, modified).await;
    let folder = story.server.work_folder().join("native/build");
    let is_done = async || (!folder.join("old").exists()).then_some(());
    native.session.until_within(PATIENCE, "the modified command", is_done).await;
    assert!(folder.join("kept.o").exists(), "the modified command ran");
}

/// Below a trust of 70, an action that is not trivial waits for a decision. The approval raises the trust to 70, and the next action runs.
async fn approval_raises_trust(story: &Story, claude: &Agent) {
    approve(claude, &claude.asked(": env?").await).await;
    claude.until_trust(70.0).await;
    story.model.open("trusted");
    let two = async || (claude.session.tool_calls().await.len() == 2).then_some(());
    claude.session.until_within(PATIENCE, "the next call", two).await;
    claude.session.until("no question", |view| view["pendingRequests"] == json!([])).await;
}

async fn approval_of_a_hibernated_agent_is_a_grant(story: &Story, scripted: &Agent) {
    let removal = scripted.asked("remove").await;
    scripted.session.until("hibernation", |view| view["hibernated"] == true).await;
    let resolve = format!("/api/decisions/{}/resolve", removal["id"].as_str().unwrap());
    let approved = story.api.post(&resolve, json!({ "resolutionType": "approve" })).await.expect(200).body;
    assert_eq!((&approved["state"], &approved["delivery"]), (&json!("resolved"), &json!("message")));
    scripted.session.until_said("The script works.").await;
    assert_eq!(scripted.session.view().await["currentRun"]["ordinal"], 2, "another process uses the grant");
}

async fn stricter_mode_holds_for_the_next_write(story: &Story, native: &Agent) {
    story.api.put("/api/control-mode", json!({ "mode": "orchestrator" })).await.expect(200);
    story.model.open("write");
    let write = native.asked("notes.md").await;
    let file = story.server.work_folder().join("native/notes.md");
    assert!(!file.exists(), "the write waits for a decision");
    approve(native, &write).await;
    let is_written = async || file.exists().then_some(());
    native.session.until_within(PATIENCE, "the file", is_written).await;
}

/// One agent ignores its pause until it is repeated, and the sidecar of another one is frozen (`SIGSTOP`). Returns the decision that the
/// brake suspends.
async fn brake_stops_all_four(story: &Story, [scripted, native, claude, acp]: [&Agent; 4]) -> Value {
    story.model.open("ask");
    let deletion = acp.asked("rm -rf dist").await;
    claude.session.post("/pause", json!({})).await.expect(202);
    claude.session.until_reported(&["pause_ack"]).await;
    // The agent pauses before its next call.
    story.model.open("claude");
    claude.session.until_status("Paused").await;
    let frozen = story.sidecar(&native.session.view().await);
    frozen.freeze();

    let scope = json!({ "type": "project", "projectId": story.project["id"] });
    let body = json!({ "scope": scope, "reason": "It deletes the wrong files" });
    let brake = story.api.post("/api/brake", body).await.expect(202).body;
    assert_eq!(brake["sessionCount"], 4);
    let three = story.until_confirmed(&brake, 3).await;
    assert_eq!(three["progress"], "3 of 4 confirmed");
    let seen = by_session(&three);
    assert_ne!(seen[&native.session.id]["stage"], "confirmed", "its sidecar is frozen: {three:#}");
    assert_eq!(seen[&scripted.session.id]["escalated"], json!(false), "the repeated command reached it");
    let all = story.until_confirmed(&brake, 4).await;
    assert_eq!(by_session(&all)[&native.session.id]["escalated"], true, "its process was ended: {all:#}");

    let suspended = async || {
        let suspended = story.api.all("/api/decisions?state=suspended").await;
        (suspended.len() == 1 && suspended[0]["id"] == deletion["id"]).then_some(())
    };
    acp.session.until_within(PATIENCE, "the suspended decision", suspended).await;
    let resolve = format!("/api/decisions/{}/resolve", deletion["id"].as_str().unwrap());
    story.api.post(&resolve, json!({ "resolutionType": "approve" })).await.refused(409, "braked");
    story.api.post(&path(&brake, "/release"), json!({})).await.expect(200);
    deletion
}

/// The agent that its owner had paused stays paused. The agent that waited for a decision waits again.
async fn release_resumes_what_the_brake_stopped(
    story: &Story,
    [scripted, native, claude, acp]: [&Agent; 4],
    deletion: &Value,
) {
    for resumed in [scripted, native] {
        resumed.session.until("its work", |view| view["status"] == "Running").await;
    }
    assert_eq!(native.session.view().await["currentRun"]["ordinal"], 2, "another process continues");
    assert_eq!(scripted.session.view().await["currentRun"]["ordinal"], 2, "the same process continues");
    acp.session.until_status("WaitingForInput").await;
    assert_eq!(claude.session.view().await["pausedReason"], "owner");

    let dist = story.server.work_folder().join("acp/dist");
    assert!(dist.exists(), "nothing was deleted without the owner");
    approve(acp, deletion).await;
    let is_done = async || (!dist.exists()).then_some(());
    acp.session.until_within(PATIENCE, "the deletion", is_done).await;
    assert_eq!(claude.session.view().await["status"], "Paused", "its owner had paused it");
    claude.session.post("/resume", json!({})).await.expect(202);
    story.model.open("end");
    for (agent, last) in
        [(native, "Native is done."), (claude, "Claude is done."), (acp, "The ACP agent is done.")]
    {
        agent.session.until_said(last).await;
    }
}

async fn log_explains_each_step(story: &Story, [scripted, native, claude, acp]: [&Agent; 4]) {
    let expected = [
        (
            scripted,
            json!([
                ["Bash", "allow", "modeDefault"],
                ["Bash", "ask", "alwaysEscalate"],
                ["Bash", "allow", "grant"]
            ]),
        ),
        (
            native,
            json!([
                ["bash", "allow", "modeDefault"],
                ["bash", "ask", "alwaysEscalate"],
                ["write", "ask", "alwaysEscalate"]
            ]),
        ),
        (
            claude,
            json!([
                ["Bash", "ask", "escalateWhen"],
                ["Bash", "allow", "modeDefault"],
                ["Bash", "allow", "neverEscalate"]
            ]),
        ),
        // The agent itself decides that listing files needs no permission.
        (acp, json!([["Bash", "ask", "alwaysEscalate"]])),
    ];
    for (agent, verdicts) in expected {
        assert_eq!(story.verdicts(agent).await, verdicts, "{}", agent.session.id);
    }
    let look = async || {
        let log = story.log().await;
        let count = |kind: &str| log.iter().filter(|it| it["type"] == kind).count();
        let is_whole = (count("brake"), count("decision"), count("trust")) == (2, 5, 9);
        is_whole.then_some(log)
    };
    let log = native.session.until_within(PATIENCE, "the whole log", look).await;
    let of = |kind: &str, field: &str| -> Vec<Value> {
        log.iter().filter(|it| it["type"] == kind).map(|it| it[field].clone()).collect()
    };
    assert_eq!(of("decision", "resolutionType"), ["modify", "approve", "approve", "approve", "approve"]);
    assert_eq!(of("control_mode", "to"), ["orchestrator"]);
    assert_eq!(of("brake", "action"), ["pulled", "released"]);
    trust_follows_the_decisions(&log, [scripted, native, claude, acp]);
}

fn trust_follows_the_decisions(log: &[Value], [scripted, native, claude, acp]: [&Agent; 4]) {
    let (approved, modified, braked) =
        ("human_approves_tool_call", "human_modifies_tool_args", "human_overrides_via_brake");
    let expected = [
        (scripted, vec![approved, braked]),
        (native, vec![modified, approved, braked]),
        (claude, vec![approved, braked]),
        (acp, vec![braked, approved]),
    ];
    for (agent, outcomes) in expected {
        let of_agent = log.iter().filter(|it| it["type"] == "trust" && it["agentId"] == agent.id.as_str());
        let seen: Vec<_> = of_agent.map(|it| it["change"]["outcome"].clone()).collect();
        assert_eq!(seen, outcomes, "{}", agent.session.id);
    }
    // Each verdict that asks has one decision, which has one change of trust.
    for asked in log.iter().filter(|it| it["type"] == "verdict" && it["verdict"] == "ask") {
        let decision = only(log, "decision", "/verdictId", &asked["verdictId"]);
        let trust = only(log, "trust", "/change/decisionId", &decision["decisionId"]);
        assert_eq!((&decision["agentId"], &trust["agentId"]), (&asked["agentId"], &asked["agentId"]));
    }
}

/// The only entry with this type and reference.
fn only<'a>(log: &'a [Value], kind: &str, pointer: &str, id: &Value) -> &'a Value {
    let found: Vec<_> =
        log.iter().filter(|it| it["type"] == kind && it.pointer(pointer) == Some(id)).collect();
    let [entry] = found[..] else { panic!("{kind} {pointer} {id}: {found:#?}") };
    entry
}
