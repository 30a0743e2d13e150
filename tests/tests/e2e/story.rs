//! The story of a project with four agents: a script, the native agent, Claude Code, and an agent of the Agent Client Protocol. Their
//! owner decides on calls, changes the control mode, and stops and releases all of them. The decision log explains each step.
//!
//! Functions in the cloud cannot reach the scripted model, so this test needs the embedded server. It is skipped where an agent is not
//! installed (`tests/agents` installs them).

mod agent;
mod log;
mod plays;

use std::path::Path;

use pilothouse_model_server::{ModelServer, Script};
use pilothouse_tests::{PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use self::agent::Agent;
use self::log::Log;
use self::plays::{bash, mailing, models};
use crate::authorization::resolve;
use crate::brakes::{by_session, path};
use crate::scripts::endless;
use crate::{agents_acp, agents_claude};

const KEY: &str = "sk-ant-the-key-of-this-story";
/// The rule of adaptive mode for agents with a trust below 70.
const TOO_LITTLE_TRUST: &str = "The agent is not trusted yet, and the action is not trivial";

/// Each agent starts with a trust of 69, one point below the limit of adaptive mode. Time does not change it.
async fn project(server: &ServerProcess) -> Value {
    let body = json!({
        "name": "Shop",
        "workstreams": [{ "id": "shop", "name": "The shop" }],
        "trust": { "config": { "initialScore": 69 } },
        "tickConfig": { "mode": "manual" },
        "toolPatterns": [{ "name": "mail", "toolPattern": "send_*", "actionKind": "network",
            "defaultSeverity": "medium", "defaultBlastRadius": "small", "defaultConfidence": 0.9 }],
    });
    server.api().post("/api/projects", body).await.expect(201).body
}

/// The server with the project, its agents and their model.
struct Story {
    server: ServerProcess,
    model: ModelServer,
    project: Value,
    script: Agent,
    native: Agent,
    claude: Agent,
    acp: Agent,
    /// A session without a project, which its owner has paused.
    outside: Session,
}

impl Story {
    async fn begin(claude: &Path, acp: &Path, home: &Path) -> Self {
        let model = ModelServer::start(Script::default()).await.unwrap();
        let environment = [
            ("ANTHROPIC_BASE_URL", &*model.base_url()),
            ("ANTHROPIC_API_KEY", KEY),
            ("PILOTHOUSE_CLAUDE", claude.to_str().unwrap()),
            ("PILOTHOUSE_ACP_CLAUDE", acp.to_str().unwrap()),
        ];
        let server = ServerProcess::start_with(5, &environment).await;
        let work = server.work_folder();
        model.play(models(&work.join("acp"), &work.join("claude")));
        for file in ["native/dist/cache/file", "native/dist/page.html", "claude/build/file"] {
            std::fs::create_dir_all(work.join(file).parent().unwrap()).unwrap();
            std::fs::write(work.join(file), "x").unwrap();
        }
        let body = json!({ "workingDirectory": work, "objective": "Wait", "budgetCapUsd": "5",
            "adapterOptions": { "script": endless() } });
        let outside = Session::start(&server.api(), body).await;
        outside.until_said("Working.").await;
        outside.post("/pause", json!({})).await.expect(202);
        outside.until_status("Paused").await;

        let project = project(&server).await;
        let quiet = json!({ "HOME": home, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
        let spawn =
            async |adapter: &str, options: Value| Agent::spawn(&server, &project, adapter, options).await;
        let script = spawn("script", json!({ "script": mailing() })).await;
        let native = spawn("native", json!({})).await;
        let claude = spawn("claude", json!({ "environment": quiet })).await;
        let acp = spawn("acp", json!({ "env": quiet })).await;
        Self { server, model, project, script, native, claude, acp, outside }
    }

    const fn agents(&self) -> [&Agent; 4] {
        [&self.script, &self.native, &self.claude, &self.acp]
    }

    /// Waits until a model has the request that this step of its conversation answers.
    async fn until_called(&self, conversation: &str, step: usize) {
        let called = self.model.wait_until(|all| {
            all.iter().any(|it| it.conversation.as_deref() == Some(conversation) && it.step == Some(step))
        });
        tokio::time::timeout(PATIENCE, called).await.unwrap_or_else(|_| panic!("{conversation} {step}"));
    }

    /// Harmless calls run. Of the deletions, one is changed and one approved.
    async fn decide_on_deletions(&self) {
        let Self { native, claude, acp, .. } = self;
        let modified = json!({ "resolutionType": "modify", "modifiedInput": bash("rm -rf dist/cache") });
        native.decide("rm -rf dist", modified).await;
        native.until_trust(68.0).await;
        let deletion = claude.asked("rm -rf build").await;
        assert!(claude.has("build/file"), "nothing is deleted before the decision");
        resolve(&claude.session.api, &deletion, json!({ "resolutionType": "approve" })).await;
        claude.until_trust(70.0).await;
        self.until_called("native", 2).await;
        self.until_called("claude", 2).await;
        self.until_called("acp", 1).await;
        assert!(native.has("dist/page.html") && !native.has("dist/cache"), "the changed command ran");
        assert!(!claude.has("build") && acp.has("first.md"));
    }

    /// One approval lifts the trust of an agent to the limit of adaptive mode. Its next mail needs no person.
    async fn trust_grows(&self) {
        let mail = self.script.asked("send_mail").await;
        assert_eq!(mail["verdict"]["rule"]["description"], TOO_LITTLE_TRUST);
        resolve(&self.script.session.api, &mail, json!({ "resolutionType": "approve" })).await;
        self.script.until_trust(70.0).await;
        self.script.session.say("Go on", "Immediate").await;
        self.script.session.until_said("Two mails are sent.").await;
    }

    /// The next write of a running agent is asked in the stricter mode. Returns its decision.
    async fn mode_becomes_stricter(&self) -> Value {
        self.server.api().put("/api/control-mode", json!({ "mode": "orchestrator" })).await.expect(200);
        self.model.open("mode");
        let asked = self.acp.asked("second.md").await;
        assert!(!self.acp.has("second.md"));
        asked
    }

    /// The brake stops all four agents: one waits for its owner, two are about to write, and one ignores its command.
    async fn brake_stops_all(&self, open: &Value) -> Value {
        let api = self.server.api();
        let judged = self.log().await.of_type("verdict").count();
        let scope = json!({ "type": "project", "projectId": self.project["id"] });
        let body = json!({ "scope": scope, "reason": "They tidy too much" });
        let brake = api.post("/api/brake", body).await.expect(202).body;
        self.model.open("brake");
        let resolution = format!("/api/decisions/{}/resolve", open["id"].as_str().unwrap());
        api.post(&resolution, json!({ "resolutionType": "approve" })).await.refused(409, "braked");
        let confirmed = async |count: usize| {
            let look = async || {
                let view = api.get(&path(&brake, "")).await.expect(200).body;
                (view["confirmedCount"] == count).then_some(view)
            };
            self.outside.until_within(PATIENCE, &format!("{count} confirmations"), look).await
        };
        let three = confirmed(3).await;
        assert_eq!(three["progress"], "3 of 4 confirmed");
        assert_ne!(by_session(&three)[&self.script.session.id]["stage"], "confirmed", "{three:#}");
        let four = confirmed(4).await;
        for agent in self.agents() {
            let seen = &by_session(&four)[&agent.session.id];
            let ignored = agent.id == self.script.id;
            assert_eq!(
                (&seen["status"], &seen["escalated"]),
                (&json!("Paused"), &json!(ignored)),
                "{four:#}"
            );
            assert_eq!(agent.session.view().await["hibernated"], ignored, "only its process is ended");
        }
        assert_eq!(self.log().await.of_type("verdict").count(), judged, "no call is judged under the brake");
        assert!(!self.native.has("notes.md") && !self.claude.has("plan.md") && !self.acp.has("second.md"));
        brake
    }

    /// The release resumes the four agents, and not the session that its owner had paused. Held calls are judged by the current mode.
    async fn release_resumes_all(&self, brake: &Value) {
        let Self { script, native, claude, acp, .. } = self;
        self.server.api().post(&path(brake, "/release"), json!({})).await.expect(200);
        acp.session.until_status("WaitingForInput").await;
        acp.decide("second.md", json!({ "resolutionType": "approve" })).await;
        native.decide("notes.md", json!({ "resolutionType": "approve" })).await;
        claude.decide("plan.md", json!({ "resolutionType": "reject", "rationale": "No plans" })).await;
        native.session.until_said("Notes are written.").await;
        claude.session.until_said("There is no plan.").await;
        acp.session.until_said("Two files are written.").await;
        assert!(native.has("notes.md") && !claude.has("plan.md") && acp.has("second.md"));

        // Its new process continues by itself, and waits for a message.
        script.session.until("a turn", |view| view["currentTurn"]["id"].is_string()).await;
        script.session.say("Thanks", "Immediate").await;
        script.session.until_said("Told: Thanks").await;
        for agent in self.agents() {
            let view = agent.session.until_status("Idle").await;
            let runs = if agent.id == script.id { 2 } else { 1 };
            assert_eq!(view["currentRun"]["ordinal"], runs, "{view:#}");
        }
        let view = self.outside.view().await;
        assert_eq!((&view["status"], &view["pausedReason"]), (&json!("Paused"), &json!("owner")));
        for prompt in self.model.prompts() {
            assert!(!prompt.is_refused(), "{:?}", prompt.refused);
        }
    }

    async fn log(&self) -> Log {
        let path = format!("/api/projects/{}/decision-log", self.project["id"].as_str().unwrap());
        Log(self.server.api().all(&path).await.into_iter().rev().collect())
    }

    async fn until_logged(&self, trust_changes: usize) -> Log {
        let look = async || {
            let log = self.log().await;
            (log.of_type("trust").count() == trust_changes).then_some(log)
        };
        self.outside.until_within(PATIENCE, &format!("{trust_changes} changes of trust"), look).await
    }
}

#[tokio::test]
async fn four_agents_of_a_project_are_governed_and_the_log_says_why() {
    let (Some(claude), Some(acp)) = (agents_claude::binary(), agents_acp::program()) else { return };
    let home = tempfile::tempdir().unwrap();
    let story = Story::begin(&claude, &acp, home.path()).await;
    story.decide_on_deletions().await;
    story.trust_grows().await;
    let open = story.mode_becomes_stricter().await;
    let brake = story.brake_stops_all(&open).await;
    story.release_resumes_all(&brake).await;

    let log = story.until_logged(10).await;
    let untrusted = format!("ask send_mail: escalateWhen {TOO_LITTLE_TRUST}");
    let expected: [&[&str]; 4] = [
        &[
            "allow Bash: modeDefault adaptive",
            &untrusted,
            "approve by owner",
            "human_approves_tool_call 69 to 70",
            "allow send_mail: modeDefault adaptive",
            "human_overrides_via_brake 70 to 67",
        ],
        &[
            "allow bash: modeDefault adaptive",
            "ask bash: alwaysEscalate delete",
            "modify by owner",
            "human_modifies_tool_args 69 to 68",
            "human_overrides_via_brake 68 to 65",
            "ask write: alwaysEscalate update",
            "approve by owner",
            "human_approves_tool_call 65 to 65.5",
        ],
        &[
            "allow Bash: modeDefault adaptive",
            "ask Bash: alwaysEscalate delete",
            "approve by owner",
            "human_approves_tool_call 69 to 70",
            "human_overrides_via_brake 70 to 67",
            "ask Write: alwaysEscalate update",
            "reject by owner",
            "human_rejects_tool_call 67 to 66",
        ],
        &[
            "allow Write: modeDefault adaptive",
            "ask Write: alwaysEscalate update",
            "human_overrides_via_brake 69 to 66",
            "approve by owner",
            "human_approves_tool_call 66 to 66.5",
        ],
    ];
    for (agent, expected) in story.agents().into_iter().zip(expected) {
        assert_eq!(log.about(agent), expected);
    }
    let modes: Vec<_> = log.of_type("control_mode").map(|entry| (&entry["from"], &entry["to"])).collect();
    assert_eq!(modes, [(&json!("adaptive"), &json!("orchestrator"))]);
    // Each question leads to the decision that answered it, and to the trust that the decision moved.
    for asked in log.of_type("verdict").filter(|entry| entry["verdict"] == "ask") {
        let decision = log.only("decision", "/verdictId", &asked["verdictId"]);
        let trust = log.only("trust", "/change/decisionId", &decision["decisionId"]);
        assert_eq!((&decision["agentId"], &trust["agentId"]), (&asked["agentId"], &asked["agentId"]));
    }
}
