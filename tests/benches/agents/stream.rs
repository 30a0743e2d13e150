//! The live stream of a project: how long after its agent's event a follower receives it, while other agents work.

use std::time::Instant;

use futures_util::{StreamExt as _, stream};
use pilothouse_api::project_stream::{AgentEventContent, ProjectMessageBody, RoutedEvent};
use pilothouse_client::{ProjectWatch, ProjectWatchEvent};
use pilothouse_domain::ProjectId;
use pilothouse_sqlite::system_clock;
use pilothouse_tests::{ServerProcess, Session};
use serde_json::{Value, json};

use crate::brakes::{CONCURRENT_STARTS, server_for};
use crate::figures::times;

/// Agents that report at the same time, each in a process of its own.
const AGENTS: usize = 50;
/// Time between two events of an agent, in milliseconds: 30 events a minute.
const PERIOD: u32 = 2000;
const MESSAGES: usize = 200;

fn endless(steps: &Value) -> Value {
    let repeated = json!({ "repeat": { "times": 5000, "steps": steps } });
    json!({ "steps": [{ "turn": { "steps": [{ "say": "Working." }, repeated] } }] })
}

async fn spawn(server: &ServerProcess, role: String, script: Value) -> Session {
    let body = json!({
        "brief": { "role": role, "workstream": "api", "adapter": "script", "providerConfig": { "script": script } },
        "objective": "Build it", "workingDirectory": server.work_folder(), "budgetCapUsd": "1",
    });
    let session = Session::spawn(&server.api(), body).await;
    session.until_said("Working.").await;
    session
}

/// The next event of an agent.
async fn next_event(watch: &mut ProjectWatch) -> Box<RoutedEvent> {
    loop {
        if let ProjectWatchEvent::Message(message) = watch.next().await.unwrap()
            && let ProjectMessageBody::Event(event) = message.body
        {
            return event;
        }
    }
}

pub(crate) async fn latency() {
    let server = server_for(AGENTS).await;
    let body = json!({ "name": "Shop", "workstreams": [{ "id": "api", "name": "The HTTP API" }] });
    let project = server.api().post("/api/projects", body).await.expect(201).body;
    let project: ProjectId = project["id"].as_str().unwrap().parse().unwrap();
    let talkative = endless(&json!([{ "say": "Still working." }, { "wait": PERIOD }]));
    let spawns = (1..AGENTS).map(|n| spawn(&server, format!("builder-{n}"), talkative.clone()));
    stream::iter(spawns).buffer_unordered(CONCURRENT_STARTS).collect::<Vec<_>>().await;
    let answers = endless(&json!([{ "waitForMessage": {} }, { "say": "I heard {{message}}" }]));
    let answering = spawn(&server, "answering".to_owned(), answers).await;

    let mut watch = server.client().watch_project(project, None);
    let clock = system_clock();
    let (mut answered, mut recorded) = (Vec::new(), Vec::new());
    for n in 0..MESSAGES {
        let sent = Instant::now();
        answering.say(&n.to_string(), "Immediate").await;
        loop {
            let event = next_event(&mut watch).await;
            let AgentEventContent::Status { message } = &event.envelope.event.content else { continue };
            if *message == format!("I heard {n}") {
                answered.push(sent.elapsed());
                recorded.push(clock().since(event.envelope.ingested_at));
                break;
            }
        }
    }
    times(&format!("stream: {AGENTS} agents, message to answer at a follower"), answered);
    times(&format!("stream: {AGENTS} agents, recorded event to a follower"), recorded);
    server.sidecars().iter().for_each(pilothouse_tests::processes::Sidecar::kill9);
}
