//! Secrets of agents: the value reaches the environment of the agent and nothing else (S2, "Secret management"; decision 92).
//!
//! Functions in the cloud cannot reach the scripted model, so these tests need the embedded server.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::leaks::files;

const KEY: &str = "sk-ant-the-key-of-this-search";
/// Only the agent's own files may contain it.
const SECRET: &str = "hunter2-correct-horse-battery";

async fn project(server: &ServerProcess) -> String {
    let body = json!({ "name": "Shop", "controlMode": "ecosystem", "workstreams": [{ "id": "shop", "name": "Shop" }] });
    let made = server.api().post("/api/projects", body).await.expect(201).body;
    made["id"].as_str().unwrap().to_owned()
}

fn keep_secrets(path: &Path, secrets: &Value) {
    std::fs::write(path, secrets.to_string()).unwrap();
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

async fn spawn(server: &ServerProcess, project: &str, adapter: &str, options: Value) -> Session {
    let refs = json!([{ "name": "DEPLOY_TOKEN", "vaultKey": "shop/deploy", "scope": "project" }]);
    let body = json!({
        "projectId": project,
        "brief": { "role": "Builder", "workstream": "shop", "adapter": adapter, "secretRefs": refs, "providerConfig": options },
        "objective": "Deploy the shop.", "workingDirectory": server.work_folder(), "budgetCapUsd": "5",
    });
    let session = Session::spawn(&server.api(), body).await;
    assert_eq!(session.started["agent"]["brief"]["secretRefs"], refs);
    session
}

fn has(text: &[u8], word: &str) -> bool {
    text.windows(word.len()).any(|part| part == word.as_bytes())
}

#[tokio::test]
async fn secret_reaches_the_agent_and_no_record() {
    let command = "printf %s \"$DEPLOY_TOKEN\" > copy; echo \"it is $DEPLOY_TOKEN\"; printf %s \"$DEPLOY_TOKEN\" | base64; \
                   printf %s \"$EXTRA\" > extra";
    let steps = [Step::tool("bash", json!({ "command": command })), Step::text(format!("I know {SECRET}"))];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let environment = [
        ("ANTHROPIC_BASE_URL", &*model.base_url()),
        ("ANTHROPIC_API_KEY", KEY),
        ("PILOTHOUSE_SECRETS", path.to_str().unwrap()),
    ];
    let server = ServerProcess::start_with(1, &environment).await;
    let shop = project(&server).await;
    keep_secrets(&path, &json!({ "shop/deploy": { "value": SECRET, "projects": [shop] } }));
    let session = spawn(&server, &shop, "native", json!({})).await;
    session.until_status("Idle").await;
    let copy = std::fs::read_to_string(server.work_folder().join("copy")).unwrap();
    assert_eq!(copy, SECRET, "the agent has it");

    let mut found = BTreeMap::new();
    files(&server.data(), &mut found);
    // The conversation is the agent's own, like its working directory.
    let of_agent = ["agent", "conversations", "outputs"];
    found
        .retain(|path, _| !path.components().any(|part| of_agent.iter().any(|own| part.as_os_str() == *own)));
    for path in ["", "/activity", "/messages", "/tools", "/logs", "/events", "/export"] {
        let response = server.api().get(&format!("/api/agents/sessions/{}{path}", session.id)).await;
        found.insert(PathBuf::from(format!("api {path}")), response.body.to_string().into_bytes());
    }
    for path in ["/api/agents", "/api/decisions"] {
        let response = server.api().get(path).await;
        found.insert(PathBuf::from(path), response.body.to_string().into_bytes());
    }
    let places = ["pilothouse.db", "spool.db", "launch.json", "sidecar.log", "api /events"];
    for place in places {
        assert!(found.keys().any(|path| path.ends_with(place)), "{place} is searched");
    }
    assert!(found.values().any(|text| has(text, "it is [secret]")), "the recorded output has no secret");
    for (place, text) in &found {
        for form in [SECRET.to_owned(), BASE64_STANDARD.encode(SECRET)] {
            assert!(!has(text, &form), "{form} is in {}", place.display());
        }
    }
}

#[tokio::test]
async fn agent_without_its_secret_fails_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secrets.json");
    let server = ServerProcess::start_with(1, &[("PILOTHOUSE_SECRETS", path.to_str().unwrap())]).await;
    let shop = project(&server).await;
    let script = json!({ "script": { "steps": [{ "say": "never said" }] } });
    // The secret names no project, and this server serves several owners.
    keep_secrets(&path, &json!({ "shop/deploy": SECRET }));
    let session = spawn(&server, &shop, "script", script).await;
    session.until_status("Failed").await;
    let shown = session.view().await.to_string();
    assert!(shown.contains("no secret `shop/deploy` for the variable DEPLOY_TOKEN"), "{shown}");
    assert!(!shown.contains(SECRET), "{shown}");
}
