//! What reaches an agent tells neither its trust nor the rules that decide about its calls (S2 `AgentBrief`, note on trust; decision 76).
//!
//! Functions in the cloud cannot reach the scripted model, so this test needs the embedded server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pilothouse_model_server::{Conversation, ModelServer, Script, Step};
use pilothouse_tests::{PATIENCE, ServerProcess, Session};
use serde_json::{Value, json};

use crate::authorization::resolve;
use crate::{agents_acp, agents_claude};

const KEY: &str = "sk-ant-the-key-of-this-search";
/// The initial score and the one after an approval, in points and in milli-points, and words of the rules below.
const SECRETS: [&str; 7] =
    ["61.317", "61317", "62.317", "62317", "zebra", "escalationProtocol", "trustScore"];

/// The project's rules and the agents' own ones ask for each deletion, in words that occur nowhere else.
async fn project(server: &ServerProcess) -> Value {
    let body = json!({
        "name": "Shop",
        "workstreams": [{ "id": "shop", "name": "The shop" }],
        "trust": { "config": { "initialScore": 61.317 } },
        "tickConfig": { "mode": "manual" },
        "escalation": { "adaptive": {
            "alwaysEscalate": ["deploy"],
            "escalateWhen": [{ "description": "Ask the zebra first",
                "predicate": { "type": "and", "rules": [
                    { "field": "trustScore", "op": "lt", "value": 80 },
                    { "field": "blastRadius", "op": "gte", "value": "small" },
                ] } }],
            "neverEscalate": ["pattern:zebra-mail"],
        } },
        "toolPatterns": [{ "name": "zebra-mail", "toolPattern": "send_*", "actionKind": "network",
            "defaultSeverity": "medium", "defaultBlastRadius": "small", "defaultConfidence": 0.9 }],
    });
    server.api().post("/api/projects", body).await.expect(201).body
}

async fn spawn(server: &ServerProcess, project: &Value, adapter: &str, options: Value) -> Session {
    let folder = server.work_folder().join(adapter);
    std::fs::create_dir_all(&folder).unwrap();
    let guardrail = json!({ "name": "the zebra's rule", "action": "block", "condition": { "tool": "Bash*",
        "arguments": [{ "at": "/command", "matches": "zebra *" }] } });
    let input =
        json!({ "name": "the zebra's input", "action": "block", "condition": { "text": ["*zebra*"] } });
    let output = json!({ "name": "the zebra's output", "action": "block",
        "condition": { "result": [{ "matches": "*zebra*" }] } });
    // The scripts have no step for what an agent learns of the others' decisions.
    let quiet = json!({ "reactiveEvents": [], "periodicIntervalMinutes": null, "stalenessThreshold": null });
    let body = json!({
        "projectId": project["id"],
        "brief": { "role": "Builder", "workstream": "shop", "adapter": adapter, "providerConfig": options,
            "contextInjectionPolicy": quiet, "escalationProtocol": { "alwaysEscalate": ["pattern:zebra-mail"] },
            "guardrailPolicy": { "toolGuardrails": [guardrail], "inputGuardrails": [input],
                "outputGuardrails": [output] } },
        "objective": format!("Tidy the shop. [[script:{adapter}]]"),
        "workingDirectory": folder,
        "budgetCapUsd": "5",
    });
    Session::spawn(&server.api(), body).await
}

/// Each model prints the environment, asks for a deletion, and then waits at a gate, so that its agent still runs.
fn models() -> Script {
    let conversation = |name: &str, tool: &str| Conversation {
        name: name.into(),
        steps: vec![
            Step::tool(tool, json!({ "command": "env" })),
            Step::tool(tool, json!({ "command": "rm -rf build" })),
            Step::text("Done.").waiting("searched"),
        ],
        ..Conversation::default()
    };
    Script {
        conversations: vec![
            conversation("native", "bash"),
            conversation("claude", "Bash"),
            conversation("acp", "Bash"),
        ],
        ..Script::default()
    }
}

/// The texts of all files below `folder`, by path.
pub(crate) fn files(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap().filter_map(Result::ok) {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files(&path, found),
            // A file can be gone by now, and sockets cannot be read.
            Ok(kind) if kind.is_file() => drop(std::fs::read(&path).map(|text| found.insert(path, text))),
            _ => {}
        }
    }
}

/// The environments and arguments of the processes that descend from the server.
fn processes(server: &ServerProcess, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let parents: BTreeMap<u32, u32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some((pid, stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()?))
        })
        .collect();
    let data = server.data().to_string_lossy().into_owned();
    for pid in parents.keys() {
        for file in ["environ", "cmdline"] {
            let path = PathBuf::from(format!("/proc/{pid}/{file}"));
            let Ok(text) = std::fs::read(&path) else { continue };
            // Sidecars leave the process group of their server, but name its data folder.
            if contains(&text, &data) {
                found.insert(path, text);
            }
        }
    }
}

/// Waits for the decision on a call with this text.
/// Waits for a pending decision with this text, such as the command of the call.
pub(crate) async fn asked(session: &Session, text: &str) -> Value {
    let path = format!("/api/decisions?session={}", session.id);
    let look = async || session.api.all(&path).await.into_iter().find(|it| it.to_string().contains(text));
    session.until_within(PATIENCE, text, look).await
}

/// Whether `text` has `word`, which is not a part of a longer one: digits also occur in ids and hashes.
fn contains(text: &[u8], word: &str) -> bool {
    let joined = |at: Option<&u8>| at.is_some_and(u8::is_ascii_alphanumeric);
    text.windows(word.len()).enumerate().any(|(at, part)| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        part.eq_ignore_ascii_case(word.as_bytes()) && !joined(before) && !joined(text.get(at + word.len()))
    })
}

#[tokio::test]
async fn nothing_that_reaches_an_agent_tells_its_trust_or_its_rules() {
    let (Some(claude), Some(acp)) = (agents_claude::binary(), agents_acp::program()) else { return };
    let home = tempfile::tempdir().unwrap();
    let model = ModelServer::start(models()).await.unwrap();
    let environment = [
        ("ANTHROPIC_BASE_URL", &*model.base_url()),
        ("ANTHROPIC_API_KEY", KEY),
        ("PILOTHOUSE_CLAUDE", claude.to_str().unwrap()),
        ("PILOTHOUSE_ACP_CLAUDE", acp.to_str().unwrap()),
    ];
    let server = ServerProcess::start_with(1, &environment).await;
    let shop = project(&server).await;
    let quiet = json!({ "HOME": home.path(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1" });
    let sessions = [
        spawn(&server, &shop, "native", json!({})).await,
        spawn(&server, &shop, "claude", json!({ "environment": quiet })).await,
        spawn(&server, &shop, "acp", json!({ "env": quiet })).await,
    ];
    for session in &sessions {
        resolve(&session.api, &asked(session, ": env?").await, json!({ "resolutionType": "approve" })).await;
        let deletion = asked(session, "rm -rf build").await;
        assert!(deletion["verdict"].to_string().contains("zebra"), "the owner sees the rule: {deletion:#}");
        resolve(&session.api, &deletion, json!({ "resolutionType": "reject", "rationale": "Keep it" })).await;
    }
    let prompts = model.wait_until(|all| {
        ["native", "claude", "acp"]
            .iter()
            .all(|name| all.iter().any(|it| it.conversation.as_deref() == Some(name) && it.step == Some(2)))
    });
    let prompts = tokio::time::timeout(PATIENCE, prompts).await.unwrap();

    let mut received = BTreeMap::new();
    for (n, prompt) in prompts.iter().enumerate() {
        received.insert(PathBuf::from(format!("prompt {n}")), prompt.text().into_bytes());
    }
    assert!(received.values().any(|text| contains(text, "XDG_DATA_HOME")), "the environment was printed");
    files(&server.work_folder(), &mut received);
    files(home.path(), &mut received);
    files(&server.data().join("runs"), &mut received);
    processes(&server, &mut received);
    for place in ["launch.json", "environ"] {
        assert!(received.keys().any(|path| path.ends_with(place)), "{place} is searched");
    }
    for (place, text) in &received {
        for secret in SECRETS {
            assert!(!contains(text, secret), "{secret} is in {}", place.display());
        }
    }
    model.open("searched");
    for session in &sessions {
        session.until_status("Idle").await;
    }
}
