//! Limits of the agent and its tools, and the redaction of secrets.

use std::os::unix::fs::MetadataExt as _;

use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use pilothouse_wire::launch::BrokerAccess;
use serde_json::{Value, json};

use super::{Agent, KEY, MODEL, bash, environment};
use crate::gateway::Gateway;
use crate::sidecar::{Folders, Sidecar, config};

#[tokio::test]
async fn model_key_is_hidden_from_tools_and_events() {
    let agent = Agent::says([bash("env"), Step::text(format!("The key is {KEY}."))]).await;
    agent.gateway.sees("turn_completed").await;
    let last = agent.last_request().to_string();
    assert!(last.contains("PATH=") && !last.contains("ANTHROPIC_API_KEY"), "a tool sees the key: {last}");
    let delivered = agent.gateway.delivered();
    assert!(delivered.iter().any(|e| e.sealed.contains("The key is [secret].")));
    assert!(delivered.iter().all(|e| !e.sealed.contains(KEY)));
}

#[tokio::test]
async fn files_outside_the_working_directory_are_refused() {
    let read = |path: &str| Step::tool("read", json!({ "path": path }));
    let agent = Agent::says([
        bash("ln -s /etc/passwd link"),
        read("/etc/passwd"),
        read("../run/launch.json"),
        read("link"),
        Step::text("Nothing."),
    ])
    .await;
    agent.gateway.sees("turn_completed").await;
    let refused = agent.story().iter().filter(|line| line.starts_with("result error")).count();
    assert_eq!(refused, 3, "{:#?}", agent.story());
}

/// As in the image: the sidecar runs as root, and the agent as another user.
#[tokio::test]
async fn container_tools_run_as_a_user_without_sidecar_access() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("not tested: only root can start processes of another user");
        return;
    }
    let write = Step::tool("write", json!({ "path": "by-write", "content": "x" }));
    let steps = [bash(
        "id -u; cat ../var/runs/*/launch.json; ls ../var/runs; cat /proc/$PPID/environ; echo x > by-bash",
    )];
    let model =
        ModelServer::start(Script::of(steps.into_iter().chain([write, Step::text("Done.")]))).await.unwrap();
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "native");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folders.root(), open).unwrap();
    let mut launch = folders.launch(&gateway);
    if let BrokerAccess::Gateway { url, token, .. } = launch.broker {
        launch.broker = BrokerAccess::Sqs { url, token };
    }
    gateway.with(|inner| inner.cloud.launch = Some(launch));
    let token = gateway.secret.gateway_token(gateway.session, gateway.run);
    let home = folders.root().join("var");
    let mut variables = vec![
        ("PILOTHOUSE_URL", gateway.url.clone()),
        ("PILOTHOUSE_SESSION_ID", gateway.session.to_string()),
        ("PILOTHOUSE_RUN_ID", gateway.run.to_string()),
        ("PILOTHOUSE_TOKEN", token.as_str().to_owned()),
        ("PILOTHOUSE_HOME", home.to_str().unwrap().to_owned()),
        ("PILOTHOUSE_AGENT_USER", "10002:10002:/nonexistent".to_owned()),
    ];
    variables.extend(environment(&model));
    let _sidecar = Sidecar::container(&variables);
    let mut config = config(Value::Null);
    config.model_id = MODEL.into();
    config.working_directory = folders.work().to_str().unwrap().into();
    let prompt = Some("do the work".to_owned());
    gateway.send(Command::Begin(Box::new(Begin {
        config,
        resume_conversation: false,
        prompt,
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    })));
    gateway.sees("turn_completed").await;
    let delivered = gateway.delivered();
    let result = delivered.iter().find(|e| e.kind() == "tool_result").unwrap().body["content"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(result.starts_with("10002\n"), "{result}");
    assert!(result.matches("ermission denied").count() >= 2 && !result.contains("envelopeKey"), "{result}");
    assert!(!result.contains("PILOTHOUSE_TOKEN") && !result.contains("[secret]"), "{result}");
    for file in ["by-bash", "by-write"] {
        assert_eq!(folders.work().join(file).metadata().unwrap().uid(), 10002, "{file}");
    }

    // Runs with the agent's rights, because the agent wrote the validated code.
    let command = "test \"$(id -u)\" = 10002 && ! env | grep -q PILOTHOUSE_TOKEN";
    let criteria =
        serde_json::from_value(json!([{ "type": "CustomCommand", "customCommand": command }])).unwrap();
    gateway.send(Command::RunValidation { criteria, timeout_seconds: 20 });
    let at = gateway.sees("validation_result").await;
    let results = gateway.delivered()[at].body["results"].clone();
    assert_eq!(results[0]["passed"], true, "{results}");
}
