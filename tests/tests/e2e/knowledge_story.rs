//! Two agents with different adapters in two workstreams: one uses an artifact of the other, both report the same file, and one is killed
//! and continues (S2, "Knowledge Store", "Coherence Monitoring", "Crash recovery").
//!
//! All processes are real; the models are scripted. Functions in the cloud cannot reach the scripted model, so this test needs the
//! embedded server. It is skipped where Claude Code is not installed (`tests/agents` installs it).

use pilothouse_api::briefing::{Briefing, BriefingSection};
use pilothouse_model_server::{Conversation, ModelServer, Script, Step};
use pilothouse_tests::processes::Sidecar;
use pilothouse_tests::{Api, PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use crate::agents_claude;

const PRICES: &str = "A pot costs 25 euros.\n";

/// The models of both agents. Gates hold the steps that depend on the owner.
fn models(folder: &std::path::Path) -> Script {
    let conversation =
        |name: &str, steps| Conversation { name: name.into(), steps, ..Conversation::default() };
    let report = json!({ "path": "prices.md", "kind": "document" });
    let guide = folder.join("guide.md");
    let builder = vec![
        Step::tool("write", json!({ "path": "prices.md", "content": PRICES })),
        Step::tool("report_artifact", report.clone()),
        Step::text("The prices are reported."),
        Step::text("Working.").waiting("never"),
        Step::text("I am back at the prices."),
    ];
    let writer = vec![
        Step::tool("Bash", json!({ "command": "ls", "description": "Look around" })).waiting("approved"),
        Step::tool("mcp__pilothouse__read_artifact", json!({ "artifactId": "{{var:artifact}}" })),
        Step::tool("Write", json!({ "file_path": guide, "content": "From the prices: {{result}}" })),
        Step::tool("Bash", json!({ "command": "ls prices.md", "description": "Look for the prices" })),
        Step::tool("mcp__pilothouse__report_artifact", report),
        Step::text("The guide is written."),
    ];
    Script {
        conversations: vec![conversation("native", builder), conversation("claude", writer)],
        ..Script::default()
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
    /// `None` if Claude Code is not installed.
    async fn begin() -> Option<Self> {
        let claude = agents_claude::binary()?;
        let home = tempfile::tempdir().unwrap();
        let model = ModelServer::start(Script::default()).await.unwrap();
        let environment = [
            ("ANTHROPIC_BASE_URL", &*model.base_url()),
            ("ANTHROPIC_API_KEY", "a-key-of-a-test"),
            ("PILOTHOUSE_CLAUDE", claude.to_str().unwrap()),
        ];
        let server = ServerProcess::start_with(1, &environment).await;
        model.play(models(&server.work_folder()));
        let api = server.api();
        let conditions = json!({ "minTrustScore": 0, "cooldownMs": 0 });
        let project = json!({
            "name": "Shop", "tickConfig": { "mode": "manual" },
            "workstreams": [{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }],
            "crashRecovery": { "autoRestart": true, "autoRestartConditions": conditions },
        });
        let project = api.post("/api/projects", project).await.expect(201).body;
        Some(Self { server, model, api, project, home })
    }

    async fn spawn(
        &self,
        role: &str,
        adapter: &str,
        workstream: &str,
        reads: &[&str],
        options: Value,
    ) -> Session {
        let body = json!({
            "projectId": self.project["id"],
            "brief": { "role": role, "workstream": workstream, "readableWorkstreams": reads, "adapter": adapter,
                "providerConfig": options },
            "objective": format!("Write down the prices. [[script:{adapter}]]"),
            "workingDirectory": self.server.work_folder(),
            "budgetCapUsd": "5",
        });
        Session::spawn(&self.api, body).await
    }

    /// Waits until an agent has asked its model for this step.
    async fn until_asked(&self, conversation: &str, step: usize) {
        let asked = self.model.wait_until(|all| {
            all.iter().any(|it| it.conversation.as_deref() == Some(conversation) && it.step == Some(step))
        });
        tokio::time::timeout(PATIENCE, asked).await.unwrap();
    }
}

#[tokio::test]
async fn agents_share_results_collide_and_recover() {
    let Some(story) = Story::begin().await else { return };
    let quiet = json!({ "HOME": story.home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
    let writer = story.spawn("Writer", "claude", "docs", &["api"], json!({ "env": quiet })).await;
    story.until_asked("claude", 0).await;
    let builder = story.spawn("Builder", "native", "api", &[], json!({})).await;
    let artifact = builder_reports_an_artifact(&story, &builder).await;
    writer_receives_the_artifact_and_uses_it(&story, &writer, &artifact).await;
    conflict_is_an_issue_before_the_review(&story, &writer).await;
    killed_agent_continues_by_policy(&story, &builder).await;
    briefing_reports_the_work(&story, &writer).await;
}

async fn builder_reports_an_artifact(story: &Story, builder: &Session) -> Value {
    builder.until_said("The prices are reported.").await;
    builder.until_status("Idle").await;
    let listed = story.api.get("/api/artifacts").await.expect(200).body["items"].clone();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["path"]), (1, &json!("prices.md")));
    listed[0].clone()
}

/// The injection arrives during a model call of the writer, and is delivered after the call.
async fn writer_receives_the_artifact_and_uses_it(story: &Story, writer: &Session, artifact: &Value) {
    let id = artifact["id"].as_str().unwrap();
    story.api.post(&format!("/api/artifacts/{id}/approve"), json!({})).await.expect(200);
    story.model.set("artifact", id);
    let injected = |it: &Value| it["source"] == "ContextInjection";
    let sent = async || {
        let events: Vec<Value> = story.api.all(&writer.path("/events")).await;
        events.iter().any(|it| it.to_string().contains("message_ack")).then_some(())
    };
    writer.until_within(PATIENCE, "the acknowledged injection", sent).await;
    story.model.open("approved");
    let messages = writer.until_messages("the injection", |all| all.iter().any(injected)).await;
    let injection = messages.iter().find(|it| injected(it)).unwrap()["content"].as_str().unwrap().to_owned();
    assert!(
        injection.contains("\"prices.md\", version 1, of the workstream api was approved"),
        "{injection}"
    );
    writer.until_said("The guide is written.").await;
    let received = story.model.prompts().into_iter().find(|it| {
        it.conversation.as_deref() == Some("claude")
            && it.text().contains("of the workstream api was approved")
    });
    let step = received.expect("the model receives it").step;
    assert!(step.is_some_and(|step| (1..5).contains(&step)), "within the turn: {step:?}");
    let guide = std::fs::read_to_string(story.server.work_folder().join("guide.md")).unwrap();
    assert!(guide.contains(PRICES.trim()), "it uses the content: {guide}");
    let calls = writer.tool_calls().await;
    let read = calls.iter().find(|it| it["toolName"] == "mcp__pilothouse__read_artifact").unwrap();
    assert_eq!(read["status"], "Success", "{read}");
}

/// Both agents report the same file. Layer 0 finds the conflict with the second report, before a person reviews the artifact.
async fn conflict_is_an_issue_before_the_review(story: &Story, writer: &Session) {
    let listed = story.api.get("/api/artifacts?workstream=docs").await.expect(200).body["items"].clone();
    assert_eq!(listed[0]["state"], "pending", "{listed}");
    let look = async || {
        let issues = story.api.get("/api/coherence").await.expect(200).body["items"].clone();
        let conflict = |it: &&Value| it["source"]["check"] == "file_conflict";
        issues.as_array().unwrap().iter().find(conflict).cloned()
    };
    let issue = writer.until_within(PATIENCE, "the conflict", look).await;
    assert_eq!((&issue["severity"], &issue["status"]["state"]), (&json!("high"), &json!("open")), "{issue}");
    assert_eq!(issue["affectedWorkstreams"], json!(["docs", "api"]), "{issue}");
    // Layer 2, which finds contradictions between texts, has no model here.
}

async fn killed_agent_continues_by_policy(story: &Story, builder: &Session) {
    builder.say("Look at them once more.", "Queued").await;
    story.until_asked("native", 3).await;
    let run = builder.view().await["currentRun"]["id"].clone();
    let of_builder = |it: &&Sidecar| it.run == run.as_str().unwrap();
    story.server.sidecars().iter().find(of_builder).unwrap().kill9();
    builder.until_said("I am back at the prices.").await;
    let view = builder.until_status("Idle").await;
    assert_eq!((&view["retryCount"], &view["currentRun"]["ordinal"]), (&json!(1), &json!(2)), "{view}");
    let agent = view["project"]["agentId"].as_str().unwrap();
    let checkpoints = story.api.get(&format!("/api/agents/{agent}/checkpoints")).await.expect(200).body;
    assert_eq!(checkpoints["items"][0]["serializedBy"], "crash_recovery", "{checkpoints}");
}

/// The briefing lists finished work, automatic decisions with their reasons, and costs. Its section of attention is empty, and the one of risks has the files
/// that the killed agent left.
async fn briefing_reports_the_work(story: &Story, writer: &Session) {
    writer.until_status("Idle").await;
    let path = format!("/api/projects/{}/briefing", story.project["id"].as_str().unwrap());
    let texts = |section: &BriefingSection| -> Vec<String> {
        section.sentences.iter().map(|sentence| sentence.text.clone()).collect()
    };
    let recovery = "The recovery of Builder was decided";
    let look = async || {
        let briefing = story.api.get(&path).await.expect(200).body;
        let briefing: Briefing = serde_json::from_value(briefing).unwrap();
        let decided = texts(&briefing.automatic_decisions);
        decided.iter().any(|text| text.starts_with(recovery)).then_some(briefing)
    };
    let briefing = writer.until_within(PATIENCE, "the recovery in the briefing", look).await;
    let finished = texts(&briefing.finished);
    for expected in ["Builder finished 2 turns and is idle.", "Writer finished 1 turn and is idle."] {
        assert!(finished.iter().any(|text| text == expected), "{expected}: {finished:?}");
    }
    let decided = texts(&briefing.automatic_decisions);
    for expected in [
        "2 calls of Bash by Writer were allowed",
        "1 call of Write by Writer was allowed",
        "1 call of write by Builder was allowed",
    ] {
        assert!(decided.iter().any(|text| text.starts_with(expected)), "{expected}: {decided:?}");
    }
    assert!(
        decided.iter().any(|text| text.ends_with("policy for the recovery of crashed agents.")),
        "{decided:?}"
    );
    assert_eq!(texts(&briefing.attention), Vec::<String>::new());
    // Both work in one folder, and its process was killed.
    assert_eq!(
        texts(&briefing.risks),
        ["Builder left files in its workspace that are not saved as artifacts."]
    );
    assert_eq!(briefing.cost.section.count, 2, "{:?}", texts(&briefing.cost.section));
}
