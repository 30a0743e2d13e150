//! Items that commands and events of a project's agents write (decision 71: no event of a session writes an item that other sessions write, too).
//!
//! The counts must equal `tests/recordings/items.txt`; `PILOTHOUSE_EXPORT=1` rewrites that file.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use pilothouse_domain::AgentSessionId;
use pilothouse_store::table::Key;
use serde_json::{Value, json};

use super::ledger::Touched;
use super::world::{World, event};
use super::{USUAL_EVENTS, other_events};

/// Two agents of a project, each in its first turn.
pub(super) async fn two_agents(world: &World, project: &str) -> [AgentSessionId; 2] {
    let project = json!({
        "name": project,
        "workstreams": [{ "id": "api", "name": "The API" }, { "id": "docs", "name": "Guides" }],
        "spendingCap": { "usd": "100" },
        // A report in a later tick reads the project, to see whether a scan is due.
        "tickConfig": { "mode": "manual" },
    });
    let project = world.call("POST", "/api/projects", &project.to_string()).await;
    let mut sessions = Vec::new();
    for workstream in ["api", "docs"] {
        let agent = json!({
            "projectId": project["id"], "objective": "Build it", "workingDirectory": "/repo/shop", "budgetCapUsd": "5",
            "brief": { "role": workstream, "workstream": workstream },
        });
        let started = world.call("POST", "/api/agents/spawn", &agent.to_string()).await;
        sessions.push(world.begin(&started).await);
    }
    world.touched();
    [sessions[0], sessions[1]]
}

/// The kind of an item, from its key: `S SESSION`, `S J#`, `A#project ROOT` (`shared/store/src/layout.rs`).
fn kind(key: &Key) -> String {
    let partition: Vec<&str> = key.partition.split('#').collect();
    let partition = if partition[0] == "A" { partition[..2].join("#") } else { partition[0].to_owned() };
    let sort = key.sort.split_once('#').map_or(key.sort.clone(), |(first, _)| format!("{first}#"));
    // The sort key of an outcome is its source.
    if partition == "G" { partition } else { format!("{partition} {sort}") }
}

/// The kinds of the items with their numbers; an item on which a transaction is conditioned has an asterisk.
fn listed(touched: &[Touched]) -> String {
    let mut kinds: Vec<_> = touched
        .iter()
        .map(|item| format!("{}{}", kind(&item.key), if item.conditioned { "*" } else { "" }))
        .collect();
    kinds.sort();
    let counts = kinds.chunk_by(|one, other| one == other).map(|same| match same.len() {
        1 => same[0].clone(),
        n => format!("{n} {}", same[0]),
    });
    let listed: Vec<_> = counts.collect();
    if listed.is_empty() { "-".to_owned() } else { listed.join(", ") }
}

struct Listed(String);

impl Listed {
    fn add(&mut self, name: &str, own: &[Touched], following: &[Touched]) {
        let _ = writeln!(self.0, "{name}\n    writes:  {}\n    then:    {}", listed(own), listed(following));
    }
}

/// The first spend of an agent draws a slice of the project's cap; the next ones use that slice up first.
const FIRST_SPEND: &str = "first usage";

/// Every event that an agent sends in its first turn, in an order that a session accepts.
fn every_event() -> Vec<(&'static str, Value)> {
    let question =
        json!({ "type": "question_asked", "requestId": "q1", "questions": [{ "question": "Which?" }] });
    let answered = json!({ "type": "tool_result", "toolCallId": "q1", "content": "This" });
    let limit = json!({ "type": "context_nearing_limit", "usagePercent": "82.5" });
    let usual = USUAL_EVENTS.iter().zip(5..).map(|(name, n)| (*name, event(n)));
    let end = json!({ "type": "session_end", "isError": true, "reason": "error_max_turns" });
    let mut events = vec![(FIRST_SPEND, event(4))];
    events.extend(usual);
    events.extend([
        ("context nearing its limit", limit),
        ("question", question),
        ("question is over", answered),
    ]);
    events.extend(other_events());
    events.push(("session ended", end));
    events
}

fn keys(touched: &[Touched]) -> BTreeSet<&Key> {
    touched.iter().map(|item| &item.key).collect()
}

/// The commit of an event writes nothing that an event of another agent of the project writes, and conditions on nothing outside of its
/// session. What an event usually causes does not write an item of the project either.
#[tokio::test]
async fn events_of_agents_write_no_item_of_their_project() {
    let world = World::open().await;
    let sessions = two_agents(&world, "Shop").await;
    let mut text = Listed(String::new());
    let usual: BTreeSet<&str> = USUAL_EVENTS
        .into_iter()
        .chain(["task list", "log chunk", "notice", "malformed", "subagent started", "subagent ended"])
        .collect();
    let mut written: [BTreeSet<Key>; 2] = Default::default();
    for (name, body) in every_event() {
        for (session, written) in sessions.iter().zip(&mut written) {
            world.take_in(*session, std::slice::from_ref(&body)).await;
            let own = world.touched();
            world.settle().await;
            let following = world.touched();
            assert!(!own.is_empty(), "{name} wrote nothing");
            let outside = |item: &&Touched| {
                item.conditioned && !item.key.partition.starts_with(&format!("S#{session}"))
            };
            let conditions: Vec<_> = own.iter().filter(outside).collect();
            assert!(
                conditions.is_empty(),
                "{name} conditions on items outside of its session: {conditions:?}"
            );
            if usual.contains(name) {
                let shared = following.iter().find(|item| item.key.partition.starts_with("A#"));
                assert!(shared.is_none(), "{name} causes a write of {shared:?}");
            }
            if *session == sessions[0] {
                text.add(&format!("event: {name}"), &own, &following);
            }
            written.extend(keys(&own).into_iter().cloned());
        }
    }
    let both: Vec<_> = written[0].intersection(&written[1]).collect();
    assert!(both.is_empty(), "events of both agents write {both:?}");
    commands(&world, &mut text).await;
    compare(&text.0);
}

/// Agents of a project that report at the same time write no common item, also if they report the same content from the same path.
#[tokio::test]
async fn reports_of_agents_write_no_item_of_their_project() {
    let world = World::open().await;
    let sessions = two_agents(&world, "Shop").await;
    let report = json!({ "path": "a.ts", "sourcePath": "a.ts", "kind": "code", "text": "one" }).to_string();
    let mut written = Vec::new();
    for session in sessions {
        world.call_as_agent(session, "POST", "/artifacts", &report).await;
        let own = world.touched();
        assert!(own.len() > 8, "{own:?}");
        written.push(keys(&own).into_iter().cloned().collect::<BTreeSet<_>>());
        world.settle().await;
        world.touched();
    }
    let both: Vec<_> = written[0].intersection(&written[1]).collect();
    assert!(both.is_empty(), "reports of both agents write {both:?}");
}

/// A report reads and writes the same number of items and units whatever the size of its project, with and without a coherence issue.
#[tokio::test]
async fn coherence_checks_cost_the_same_in_a_large_project() {
    let world = World::open().await;
    let [one, other] = two_agents(&world, "Shop").await;
    let report = async |session, path: &str, text: &str| {
        let body = json!({ "path": path, "sourcePath": path, "kind": "code", "text": text }).to_string();
        let call = async || drop(world.call_as_agent(session, "POST", "/artifacts", &body).await);
        let bill = world.own_cost(call).await;
        world.settle().await;
        (bill.reads, bill.writes, bill.read_half_units, bill.write_units)
    };
    let alone = report(one, "a.ts", "one").await;
    let conflicting = report(other, "a.ts", "two").await;
    for n in 0..60 {
        let body = json!({ "path": format!("{n}.md"), "kind": "document", "workstream": "docs", "text": n.to_string() });
        world.call("POST", "/api/artifacts", &body.to_string()).await;
    }
    assert_eq!(report(one, "b.ts", "six").await, alone);
    assert_eq!(report(other, "b.ts", "ten").await, conflicting);
    assert_eq!(conflicting.1, alone.1 + 2, "the issue and its journal entry");
}

async fn commands(world: &World, text: &mut Listed) {
    let [session, _] = two_agents(world, "Library").await;
    let of_session = format!("/api/agents/sessions/{session}");
    let question =
        json!({ "type": "question_asked", "requestId": "q1", "questions": [{ "question": "Which?" }] });
    world.say(session, &[question]).await;
    world.touched();
    let listed = world.call("GET", "/api/decisions?state=pending", "").await;
    let waiting =
        listed["items"].as_array().unwrap().iter().find(|item| item["sessionId"] == session.to_string());
    let resolve = format!("/api/decisions/{}/resolve", waiting.unwrap()["id"].as_str().unwrap());
    let project = world.call("GET", "/api/projects", "").await;
    let project = project["items"].as_array().unwrap().iter().find(|item| item["name"] == "Library").unwrap();
    let mode = json!({ "projectId": project["id"], "mode": "orchestrator" }).to_string();
    let brake =
        json!({ "scope": { "type": "project", "projectId": project["id"] }, "reason": "Wrong files" });
    for (name, method, path, body) in [
        (
            "resolve a decision",
            "POST",
            resolve.as_str(),
            r#"{"resolutionType":"answer","answers":[{"question":"Which?","answer":"This"}]}"#,
        ),
        (
            "enqueue a message",
            "POST",
            &format!("{of_session}/messages/queue"),
            r#"{"content":"look at the tests"}"#,
        ),
        ("clear the queue", "DELETE", &format!("{of_session}/messages/queue"), ""),
        ("change the budget", "PATCH", &format!("{of_session}/budget"), r#"{"capUsd":"9"}"#),
        ("change the control mode", "PUT", "/api/control-mode", &mode),
        ("brake a project with two agents", "POST", "/api/brake", &brake.to_string()),
    ] {
        world.call(method, path, body).await;
        let own = world.touched();
        world.settle().await;
        text.add(name, &own, &world.touched());
    }
}

fn compare(text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/items.txt");
    if std::env::var_os("PILOTHOUSE_EXPORT").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(recorded == text, "{} differs\nrecorded:\n{recorded}\nnow:\n{text}", file.display());
}
