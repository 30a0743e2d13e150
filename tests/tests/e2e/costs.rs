//! Costs of commands and events: reads and writes of the table, and messages to queues.
//!
//! The functions run in this process on the counting table of the costs bench. The counts must equal `tests/recordings/costs.txt`;
//! `PILOTHOUSE_EXPORT=1` rewrites that file.

#[allow(dead_code)] // only the bench uses the prices
#[path = "../../benches/costs/billed.rs"]
mod billed;
#[allow(dead_code)]
#[path = "../../benches/costs/ledger.rs"]
mod ledger;
#[allow(dead_code)]
#[path = "../../benches/costs/world.rs"]
mod world;

mod items;

use std::fmt::Write as _;
use std::path::PathBuf;

use ledger::Bill;
use serde_json::{Value, json};
use world::{Counts, World, event};

struct Counted(String);

impl Counted {
    fn new() -> Self {
        let units = "commits  reads  writes  JSON bytes  read units  write units  messages  triggering sends";
        Self(format!("{:<40}  {units}\n", ""))
    }

    fn add(&mut self, name: &str, (bill, counts): (Bill, Counts)) {
        let Bill { commits, reads, writes, bytes, write_units, .. } = bill;
        // An eventually consistent read costs half a unit.
        let (read_units, half) =
            (bill.read_half_units / 2, if bill.read_half_units % 2 == 1 { ".5" } else { "  " });
        let Counts { messages, triggering, .. } = counts;
        let _ = writeln!(
            self.0,
            "{name:<40}  {commits:>7}  {reads:>5}  {writes:>6}  {bytes:>10}  {read_units:>8}{half}  {write_units:>11}  {messages:>8}  {triggering:>16}",
        );
    }
}

#[tokio::test]
async fn commands_and_events_cost_what_they_did() {
    let mut counted = Counted::new();
    let world = World::open().await;
    commands(&world, &mut counted).await;
    events(&world, &mut counted).await;
    decisions(&world, &mut counted).await;
    knowledge(&world, &mut counted).await;
    let text = counted.0;
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/costs.txt");
    if std::env::var_os("PILOTHOUSE_EXPORT").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(recorded == text, "{} differs\nrecorded:\n{recorded}\nnow:\n{text}", file.display());
}

/// The kinds of [`event`], by its number.
const USUAL_EVENTS: [&str; 5] = ["thinking", "tool use", "tool result", "text", "usage"];

async fn commands(world: &World, counted: &mut Counted) {
    let sessions = "/api/agents/sessions";
    let body = r#"{"workingDirectory":"/repo/shop","objective":"Make the tests of the shop pass","budgetCapUsd":"5"}"#;
    let used = world.used(async || drop(world.call("POST", sessions, body).await)).await;
    counted.add("start a session, to its launch", used);
    let id = world.running_session().await;
    let of_session = format!("{sessions}/{id}");
    let call = async |name: &str, method: &str, path: &str, body: &str, counted: &mut Counted| {
        counted.add(name, world.used(async || drop(world.call(method, path, body).await)).await);
    };
    let queue = format!("{of_session}/messages/queue");
    let message = r#"{"content":"please look at the tests first"}"#;
    call("enqueue a message", "POST", &queue, message, counted).await;
    call("clear the queue", "DELETE", &queue, "", counted).await;
    call("change the budget", "PATCH", &format!("{of_session}/budget"), r#"{"capUsd":"9"}"#, counted).await;
    // A new session, whose command queue contains only the commands below.
    let id = world.running_session().await;
    let of_session = format!("{sessions}/{id}");
    for command in ["pause", "resume", "interrupt"] {
        let path = format!("{of_session}/{command}");
        let asked = world.used(async || drop(world.call("POST", &path, "{}").await)).await;
        counted.add(command, asked);
        let acknowledged = world.used(async || world.acknowledge(id, &format!("{command}_ack")).await).await;
        counted.add(&format!("{command}: its acknowledgements"), acknowledged);
    }
    call("read a session", "GET", &of_session, "", counted).await;
    call("read the activity of a session", "GET", &format!("{of_session}/activity"), "", counted).await;
    call("list sessions", "GET", sessions, "", counted).await;
    let cancel = format!("{of_session}/cancel");
    call("cancel, with its command", "POST", &cancel, "{}", counted).await;
}

async fn events(world: &World, counted: &mut Counted) {
    let id = world.running_session().await;
    for (n, kind) in USUAL_EVENTS.iter().enumerate() {
        let one = event(n as u64);
        counted.add(&format!("event: {kind}"), world.used(async || world.say(id, &[one]).await).await);
    }
    let batch: Vec<Value> = (5..15).map(event).collect();
    counted.add("10 events in one batch", world.used(async || world.say(id, &batch).await).await);
    for (name, body) in other_events() {
        counted.add(&format!("event: {name}"), world.used(async || world.say(id, &[body]).await).await);
    }
}

/// Events that an agent sends besides the usual ones of [`event`], in an order that a session accepts.
fn other_events() -> Vec<(&'static str, Value)> {
    vec![
        (
            "task list",
            json!({ "type": "task_list", "tasks": [{ "id": "1", "subject": "Tests", "status": "Pending" }] }),
        ),
        ("log chunk", json!({ "type": "log_chunk", "stream": "agent", "content": "a line" })),
        ("notice", json!({ "type": "notice", "name": "slow", "summary": "The provider is slow" })),
        ("malformed", json!({ "type": "nonsense" })),
        ("subagent started", json!({ "type": "subagent_started", "subagentId": "s1", "objective": "Look" })),
        ("subagent ended", json!({ "type": "subagent_ended", "subagentId": "s1" })),
        ("turn completed", json!({ "type": "turn_completed", "turnId": "turn-1" })),
    ]
}

/// A request costs one item more when it opens, when it is resolved, and when the sidecar acknowledges the resolution.
async fn decisions(world: &World, counted: &mut Counted) {
    let id = world.running_session().await;
    let ask = |request: &str| json!({ "type": "question_asked", "requestId": request, "questions": [{ "question": "Which?" }] });
    counted.add("event: question", world.used(async || world.say(id, &[ask("q1")]).await).await);
    let answer = json!({ "requestId": "q1", "answers": [{ "question": "Which?", "answer": "This" }] });
    let path = format!("/api/agents/sessions/{id}/answer");
    let used = world.used(async || drop(world.call("POST", &path, &answer.to_string()).await)).await;
    counted.add("answer a question", used);
    let used = world.used(async || world.acknowledge(id, "answer_ack").await).await;
    counted.add("answer: its acknowledgements", used);
    world.say(id, &[ask("q2")]).await;
    let listed = world.call("GET", "/api/decisions", "").await;
    let used = world.used(async || drop(world.call("GET", "/api/decisions", "").await)).await;
    counted.add("list the inbox", used);
    let decision = listed["items"][0]["id"].as_str().unwrap();
    let resolution = json!({ "resolutionType": "answer", "answers": answer["answers"] }).to_string();
    let path = format!("/api/decisions/{decision}/resolve");
    counted.add(
        "resolve a decision",
        world.used(async || drop(world.call("POST", &path, &resolution).await)).await,
    );
}

/// Artifacts of an agent in a project.
async fn knowledge(world: &World, counted: &mut Counted) {
    let [session, other] = items::two_agents(world, "Knowledge").await;
    let report = |text: &str| {
        json!({ "path": "src/orders.ts", "sourcePath": "src/orders.ts", "kind": "code", "text": text })
            .to_string()
    };
    let mut reported = Value::Null;
    for (name, text) in [("report an artifact", "price = 5"), ("report its next version", "price = 6")] {
        let body = report(text);
        let call = async || reported = world.call_as_agent(session, "POST", "/artifacts", &body).await;
        counted.add(name, world.used(call).await);
    }
    let conflicting = report("price = 7");
    let call = async || drop(world.call_as_agent(other, "POST", "/artifacts", &conflicting).await);
    counted.add("report an artifact that conflicts", world.used(call).await);
    let flag =
        json!({ "title": "Units differ", "description": "Cents here, dollars there", "category": "gap" });
    let flag = flag.to_string();
    let call = async || drop(world.call_as_agent(other, "POST", "/coherence", &flag).await);
    counted.add("flag a coherence issue", world.used(call).await);
    let id = reported["artifactId"].as_str().unwrap();
    let read = async || drop(world.call_as_agent(session, "GET", &format!("/artifacts/{id}"), "").await);
    counted.add("read an artifact as an agent", world.used(read).await);
    let search = async || drop(world.call_as_agent(session, "GET", "/knowledge?query=price", "").await);
    counted.add("search as an agent", world.used(search).await);
    let artifact = world.call("GET", &format!("/api/artifacts/{id}"), "").await;
    let project = artifact["projectId"].as_str().unwrap();
    let agent = artifact["createdBy"]["agentId"].as_str().unwrap();
    let snapshot = format!("/api/projects/{project}/snapshot?agentId={agent}");
    for (name, method, path, body) in [
        (
            "list artifacts of a workstream",
            "GET",
            format!("/api/artifacts?projectId={project}&workstream=api"),
            "",
        ),
        ("list coherence issues", "GET", format!("/api/coherence?projectId={project}"), ""),
        ("read the coherence score", "GET", format!("/api/projects/{project}/coherence"), ""),
        ("make a snapshot", "GET", snapshot.clone(), ""),
        ("make the same snapshot again", "GET", snapshot, ""),
        ("approve an artifact", "POST", format!("/api/artifacts/{id}/approve"), "{}"),
    ] {
        counted.add(name, world.used(async || drop(world.call(method, &path, body).await)).await);
    }
}
