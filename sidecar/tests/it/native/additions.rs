//! MCP servers and extensions of a configuration, which are separate programs.

use pilothouse_domain::ToolCallId;
use pilothouse_domain::value::{Answer, MessagePriority};
use pilothouse_model_server::{Script, Step};
use pilothouse_wire::Command;
use serde_json::{Value, json};

use super::{Agent, bash, begun};
use crate::sidecar::message;

/// A minimal MCP server. Its tools `ask` and `visit` make requests to the user.
const SERVER: &str = r#"
import json, os, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def elicited(params):
    say({"id": "e1", "method": "elicitation/create", "params": params})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "e1": return json.dumps(message["result"], sort_keys=True)
FORM = {"type": "object", "required": ["seats"], "properties": {
    "seats": {"type": "integer", "title": "Seats", "description": "How many"}, "window": {"type": "boolean", "title": "Window"}}}
def result(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "instructions": "Greet first.",
                "serverInfo": {"name": "greeter", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("greet", "shout", "ask", "visit")]}
    text = "hello from " + os.getcwd() + " " + str("ANTHROPIC_API_KEY" in os.environ)
    if params["name"] == "ask": text = elicited({"message": "Book a table", "requestedSchema": FORM})
    if params["name"] == "visit": text = elicited({"mode": "url", "message": "Log in", "url": "https://login.invalid/", "elicitationId": "1"})
    return {"content": [{"type": "text", "text": text}]}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        say({"id": message["id"], "result": result(message["method"], message.get("params"))})
"#;

/// An extension that blocks pushes and has its own secret. It never answers its command `wait`.
const EXTENSION: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "hello":
        commands = [{"name": "standup"}, {"name": "wait"}]
        hello = {"type": "hello", "protocol": 1, "subscribe": ["before_tool"], "commands": commands}
        print(json.dumps(hello), flush=True)
    elif message["type"] == "request":
        answer = {"type": "answer", "id": message["id"]}
        if message.get("name") == "wait":
            open("wait.begun", "w").close()
            continue
        if message["hook"] == "command":
            answer["text"] = "heard " + message["arguments"]
        elif "push" in json.dumps(message["arguments"]):
            answer["block"] = "Pushing is for people, says " + os.environ["MINE"]
        print(json.dumps(answer), flush=True)
"#;

/// An agent whose server asks the user, and the open request.
async fn asked(steps: Vec<Step>) -> (Agent, ToolCallId) {
    let agent = Agent::idle(Script::of(steps)).await;
    std::fs::write(agent.work().join("server.py"), SERVER).unwrap();
    agent.begin(|begin| {
        begin.config.adapter_options =
            json!({ "mcpServers": { "mine": { "command": "python3", "args": ["server.py"] } } });
    });
    agent.gateway.sees("question_asked").await;
    let delivered = agent.gateway.delivered();
    let question = delivered.iter().find(|event| event.kind() == "question_asked").unwrap();
    let questions = question.body["questions"].as_array().unwrap();
    let words: Vec<_> = questions.iter().map(|question| question["question"].as_str().unwrap()).collect();
    assert_eq!(words, ["Seats: How many", "Window"]);
    assert_eq!(questions[0]["header"], "mine: Book a table", "the question names the server and the reason");
    let request = question.body["requestId"].as_str().unwrap().parse().unwrap();
    (agent, request)
}

fn answers(seats: &str) -> Vec<Answer> {
    let answer = |question: &str, answer: &str| Answer { question: question.into(), answer: answer.into() };
    vec![answer("Seats: How many", seats), answer("Window", "yes")]
}

#[tokio::test]
async fn servers_of_the_project_are_used_unless_tools_are_restricted() {
    let servers = json!({ "mcpServers": {
        "mine": { "type": "stdio", "command": "${NOWHERE:-python3}", "args": ["server.py"] },
        "odd": { "socket": "/tmp/x" },
    } });
    for (restricted, offered) in [(false, true), (true, false)] {
        let agent = Agent::idle(Script::of([Step::text("Done.")])).await;
        std::fs::write(agent.work().join("server.py"), SERVER).unwrap();
        std::fs::write(agent.work().join(".mcp.json"), servers.to_string()).unwrap();
        agent.begin(|begin| {
            if restricted {
                begin.config.allowed_tools = vec!["read".into()];
            }
        });
        agent.gateway.sees("turn_completed").await;
        let tools = agent.last_request()["tools"].to_string();
        assert_eq!(tools.contains("mcp__mine__greet"), offered, "{tools}");
        let has_notice = agent.gateway.story().iter().any(|line| line.starts_with("notice agent_addition"));
        assert_eq!(has_notice, offered, "the unknown form is reported");
    }
}

#[tokio::test]
async fn owner_answers_an_mcp_form_even_while_paused() {
    let steps = vec![Step::tool("mcp__mine__ask", json!({})), Step::text("Booked.")];
    let (agent, request_id) = asked(steps).await;
    let pause = agent.gateway.send(Command::Pause {});
    agent.gateway.acknowledged(pause, "done").await;
    let answered =
        agent.gateway.send(Command::Answer { request_id, answers: answers("4"), modified_input: None });
    agent.gateway.acknowledged(answered, "done").await;
    let resume = agent.gateway.send(Command::Resume {});
    agent.gateway.acknowledged(resume, "done").await;
    agent.gateway.sees("turn_completed").await;
    let said = r#"result ok: {"action": "accept", "content": {"seats": 4, "window": true}}"#;
    assert!(agent.story().iter().any(|line| line == said), "{:#?}", agent.story());
}

#[tokio::test]
async fn invalid_form_answer_declines_and_an_interrupt_cancels() {
    let ask = || Step::tool("mcp__mine__ask", json!({}));
    let (agent, request_id) = asked(vec![ask(), ask(), Step::text("Never mind.")]).await;
    let answered =
        agent.gateway.send(Command::Answer { request_id, answers: answers("a few"), modified_input: None });
    agent.gateway.acknowledged(answered, "done").await;
    agent.gateway.sees_nth("question_asked", 2).await;
    let declined = r#"result ok: {"action": "decline"}"#;
    assert!(agent.story().iter().any(|line| line == declined), "{:#?}", agent.story());
    let delivered = agent.gateway.delivered();
    let second = delivered.iter().rfind(|event| event.kind() == "question_asked").unwrap();
    let request_id = second.body["requestId"].as_str().unwrap().parse().unwrap();
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(interrupt, "done").await;
    let late =
        agent.gateway.send(Command::Answer { request_id, answers: answers("4"), modified_input: None });
    agent.gateway.acknowledged(late, "invalid").await;
}

#[tokio::test]
async fn mcp_page_request_is_declined_and_the_owner_is_notified() {
    let options = json!({ "mcpServers": { "mine": { "command": "python3", "args": ["server.py"] } } });
    let steps = vec![Step::tool("mcp__mine__visit", json!({})), Step::text("Not logged in.")];
    let agent = run(options, |_, _| {}, steps).await;
    let declined = r#"result ok: {"action": "decline"}"#;
    assert!(agent.story().iter().any(|line| line == declined), "{:#?}", agent.story());
    let delivered = agent.gateway.delivered();
    let notice =
        delivered.iter().find(|event| event.body["name"] == "elicitation_declined").expect("it is published");
    assert_eq!(notice.body["detail"]["url"], "https://login.invalid/");
}

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
async fn mcp_tools_run_in_the_working_directory() {
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
    assert!(!names.contains(&"mcp__env__greet"), "only the defined tools of a server: {names:?}");
    assert!(asked["system"].to_string().contains("Greet first."));
}

#[tokio::test]
async fn reload_brings_the_tools_of_the_new_configuration() {
    let steps = [Step::text("One."), Step::tool("mcp__env__shout", json!({})), Step::text("Two.")];
    let agent = Agent::says(steps).await;
    agent.gateway.sees("turn_completed").await;
    assert!(!agent.last_request()["tools"].to_string().contains("mcp__env__shout"));
    let server = agent.work().join("server.py");
    std::fs::write(&server, SERVER).unwrap();
    let mut config = agent.config();
    config.custom_tools = serde_json::from_value(json!([{
        "name": "shout", "description": "Shouts", "inputSchema": "{}",
        "serverUri": format!("stdio:///usr/bin/env?arg=python3&arg={}", server.display()),
    }]))
    .unwrap();
    let reload = agent.gateway.send(Command::ReloadConfig { config: Box::new(config) });
    agent.gateway.acknowledged(reload, "done").await;
    agent.gateway.send(message("next", MessagePriority::Queued));
    agent.gateway.sees_nth("turn_completed", 2).await;
    let work = agent.work().canonicalize().unwrap();
    let said = format!("result ok: hello from {} False", work.display());
    assert!(agent.story().contains(&said), "{:#?}", agent.story());
}

#[tokio::test]
async fn extension_blocks_a_call_and_a_missing_server_is_reported() {
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
    let delivered = agent.gateway.delivered();
    let notice =
        delivered.iter().find(|event| event.body["name"] == "agent_addition").expect("it is published");
    assert!(notice.body["summary"].as_str().unwrap().contains("the MCP server missing cannot be reached"));
    assert!(delivered.iter().all(|event| !event.sealed.contains("a-secret-of-the-extension")));
}

#[tokio::test]
async fn extension_command_runs_in_a_turn_until_an_interrupt() {
    let agent = Agent::idle(Script::of([bash("mkfifo a; touch a.begun; read word < a")])).await;
    std::fs::write(agent.work().join("extension.py"), EXTENSION).unwrap();
    let extension = json!({ "name": "mine", "command": "python3", "args": ["extension.py"] });
    agent.begin(|begin| begin.config.adapter_options["extensions"] = json!([extension]));
    begun(&agent, "a").await;
    let answered = agent.gateway.send(message("/standup now", MessagePriority::Immediate));
    agent.gateway.acknowledged(answered, "injected").await;
    assert!(agent.story().contains(&"text heard now".to_owned()), "{:#?}", agent.story());

    let unanswered = agent.gateway.send(message("/wait", MessagePriority::Immediate));
    begun(&agent, "wait").await;
    let interrupt = agent.gateway.send(Command::Interrupt {});
    agent.gateway.acknowledged(unanswered, "turn-over").await;
    agent.gateway.acknowledged(interrupt, "done").await;
}
