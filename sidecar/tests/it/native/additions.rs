//! What a configuration adds: MCP servers and extensions, which are programs of their own.

use pilothouse_model_server::{Script, Step};
use serde_json::{Value, json};

use super::{Agent, bash};

/// An MCP server with two tools, as small as one can be: it stands for those that people run.
const SERVER: &str = r#"
import json, os, sys
def result(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": "Greet first.",
                "serverInfo": {"name": "greeter", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("greet", "shout")]}
    return {"content": [{"type": "text", "text": "hello from " + os.getcwd() + " " + str("ANTHROPIC_API_KEY" in os.environ)}]}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message["method"], message.get("params"))}
        print(json.dumps(answer), flush=True)
"#;

/// An extension that lets nobody push, and has its own secret.
const EXTENSION: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        print(json.dumps({"type": "hello", "protocol": 1, "subscribe": ["before_tool"]}), flush=True)
    elif message["type"] == "request":
        answer = {"type": "answer", "id": message["id"]}
        if "push" in json.dumps(message["arguments"]): answer["block"] = "Pushing is for people, says " + os.environ["MINE"]
        print(json.dumps(answer), flush=True)
"#;

async fn run(options: Value, change: impl FnOnce(&Agent, &mut Value), steps: Vec<Step>) -> Agent {
    let agent = Agent::idle(Script::of(steps)).await;
    for (name, content) in [("server.py", SERVER), ("extension.py", EXTENSION)] {
        std::fs::write(agent.work().join(name), content).unwrap();
    }
    let mut tools = json!([]);
    change(&agent, &mut tools);
    agent.begin(|begin| {
        begin.config.adapter_options = options;
        begin.config.custom_tools = serde_json::from_value(tools).unwrap();
    });
    agent.gateway.sees("turn_completed").await;
    agent
}

#[tokio::test]
async fn tools_of_mcp_servers_are_called_in_the_working_directory() {
    let options = json!({ "mcpServers": { "mine": { "command": "python3", "args": ["server.py"] } } });
    let defined = |agent: &Agent, tools: &mut Value| {
        let program = agent.work().join("server.py");
        let program = program.display();
        *tools = json!([{ "name": "shout", "description": "Shouts", "inputSchema": "{}",
            "serverUri": format!("stdio:///usr/bin/env?arg=python3&arg={program}") }]);
    };
    let steps = vec![
        Step::tool("mcp__mine__greet", json!({})),
        Step::tool("mcp__env__shout", json!({})),
        Step::text("Done."),
    ];
    let agent = run(options, defined, steps).await;
    let work = agent.work().canonicalize().unwrap();
    let said = format!("result ok: hello from {} False", work.display());
    let story = agent.story();
    assert_eq!(story.iter().filter(|line| **line == said).count(), 2, "{story:#?}");
    let asked = agent.last_request();
    let names: Vec<_> =
        asked["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"mcp__mine__shout"), "{names:?}");
    assert!(!names.contains(&"mcp__env__greet"), "of a defined server, only what is defined: {names:?}");
    assert!(asked["system"].to_string().contains("Greet first."));
}

#[tokio::test]
async fn an_extension_blocks_a_call_and_a_missing_server_is_told() {
    let options = json!({
        "mcpServers": { "missing": { "command": "/no/such/server" } },
        "extensions": [{ "name": "guard", "command": "python3", "args": ["extension.py"],
            "env": { "MINE": "a-secret-of-the-extension" }, "required": true }],
    });
    let steps = vec![bash("git push"), bash("echo fine"), Step::text("Done.")];
    let agent = run(options, |_, _| {}, steps).await;
    let story = agent.story();
    assert!(story.iter().any(|line| line == "result ok: fine"), "{story:#?}");
    assert!(story.iter().any(|line| line.contains("Pushing is for people")), "{story:#?}");
    let told = agent.gateway.delivered();
    let notice = told.iter().find(|event| event.body["name"] == "agent_addition").expect("it is told");
    assert!(notice.body["summary"].as_str().unwrap().contains("the MCP server missing cannot be reached"));
    assert!(told.iter().all(|event| !event.sealed.contains("a-secret-of-the-extension")));
}
