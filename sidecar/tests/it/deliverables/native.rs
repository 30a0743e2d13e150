//! The native agent with its real tools and a scripted model. Only the model is fake.

use pilothouse_model_server::{ModelServer, Script, Step};
use pilothouse_wire::Command;
use pilothouse_wire::command::Begin;
use serde_json::{Value, json};

use crate::gateway::Gateway;
use crate::sidecar::{Folders, config};

fn set(status: &str) -> Step {
    Step::tool("deliverable", json!({ "operation": "set_status", "deliverableId": "DL-1", "status": status }))
}

#[tokio::test]
async fn native_agent_continues_until_its_deliverables_are_settled() {
    let one = json!({ "id": "DL-1", "description": "A greeting", "acceptanceCriteria": ["it is friendly"] });
    let steps = [
        Step::tool("deliverable", json!({ "operation": "create", "deliverables": [one] })),
        Step::text("I made a plan."),
        Step::tool("bash", json!({ "command": "echo hello > greeting" })),
        set("passed"),
        Step::text("It is done."),
    ];
    let model = ModelServer::start(Script::of(steps)).await.unwrap();
    let gateway = Gateway::start().await;
    let folders = Folders::of_adapter(&gateway, "native");
    let environment =
        [("ANTHROPIC_BASE_URL", model.base_url()), ("ANTHROPIC_API_KEY", "sk-ant-x".to_owned())];
    let _sidecar = folders.start_with(&environment);
    let mut config = config(json!({ "deliverables": { "required": true, "maxIterations": 5 } }));
    config.model_id = "anthropic/claude-sonnet-4-5".into();
    config.working_directory = folders.work().to_str().unwrap().into();
    gateway.send(Command::Begin(Box::new(Begin {
        config,
        resume_conversation: false,
        prompt: Some("Greet the user in a file.".into()),
        images: Vec::new(),
        allowance_usd: None,
        allow_unmetered: false,
    })));
    let at = gateway.sees("turn_completed").await;
    let delivered = gateway.delivered();
    assert_eq!(delivered[at].body.get("outcome"), None, "{:#?}", gateway.story());
    let greeting = std::fs::read_to_string(folders.work().join("greeting")).unwrap_or_default();
    assert_eq!(
        greeting,
        "hello\n",
        "{:#?}",
        delivered.iter().map(|e| e.body.to_string()).collect::<Vec<_>>()
    );
    let of = |kind: &str| {
        delivered.iter().filter(|e| e.kind() == kind).map(|e| e.body.clone()).collect::<Vec<_>>()
    };
    let states: Vec<_> =
        of("deliverables").iter().map(|body| body["deliverables"][0]["status"].clone()).collect();
    assert_eq!(states, ["pending", "passed"]);
    assert_eq!((of("turn_started").len(), of("turn_completed").len()), (1, 1), "one turn, to the outside");
    let turns: std::collections::BTreeSet<_> =
        of("assistant_message").iter().map(|body| body["turnId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(turns.len(), 1, "all messages belong to it");
    let asked: Vec<Value> = model.prompts().into_iter().map(|prompt| prompt.body).collect();
    assert!(asked[0].to_string().contains("There are none yet"));
    assert!(asked[2]["messages"].as_array().unwrap().last().unwrap().to_string().contains("These are open"));
}
