//! The measurements.

use std::time::Duration;

use pilothouse_tests::Session;
use serde_json::{Value, json};

use crate::tally::{Bench, Cost};

/// Repetitions of each command.
const COMMANDS: u32 = 20;
const STARTS: u32 = 10;
/// The observation time of an idle session.
const IDLE: Duration = Duration::from_mins(1);
/// Events of a working agent: one every two seconds, and all at once.
const EVENTS: u32 = 60;
const BURST: u32 = 600;

pub(crate) async fn carry_out(bench: &Bench) {
    bench.api.patch("/api/agents/pool", json!({ "maxConcurrentSessions": 500 })).await.expect(200);
    let session = begin(bench, &at_work()).await;
    let idle = bench.measure(async || tokio::time::sleep(IDLE).await).await;
    println!("an hour of an idle session");
    idle.hourly().print("heartbeats, empty receives");
    println!("    dollars: {:.5}", idle.hourly().dollars() / 1e6);

    println!("a million commands, including all their effects");
    commands(bench, &session, &idle).await;
    end(&session).await;

    println!("a million events");
    let pace = json!({ "wait": 2000 });
    let calm = events(bench, EVENTS, &pace, &idle).await;
    calm.print("event, one every two seconds");
    events(bench, BURST, &json!({ "wait": 0 }), &idle).await.print("event, at full speed");
    let hour = (1800.0 * calm.dollars() + idle.hourly().dollars()) / 1e6;
    println!("an hour of a session with 30 events a minute, without its container: ${hour:.4}");
}

async fn commands(bench: &Bench, session: &Session, idle: &Cost) {
    let n = f64::from(COMMANDS);
    let cost = bench
        .measure(async || {
            for i in 0..COMMANDS {
                session.patch("/budget", json!({ "capUsd": (20 + i).to_string() })).await.expect(200);
            }
        })
        .await;
    cost.each(n, idle).print("change the budget");
    let cost = bench
        .measure(async || {
            for _ in 0..COMMANDS {
                session.say("please look at the tests first", "Queued").await;
            }
        })
        .await;
    cost.each(n, idle).print("enqueue a message");
    let (mut pauses, mut resumes) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        for (command, status, costs) in
            [("/pause", "Paused", &mut pauses), ("/resume", "Running", &mut resumes)]
        {
            let cost = bench
                .measure(async || {
                    session.post(command, json!({})).await.expect(202);
                    session.until_status(status).await;
                })
                .await;
            costs.push(cost.each(1.0, idle));
        }
    }
    mean(&pauses).print("pause, with its acknowledgements");
    mean(&resumes).print("resume, with its acknowledgements");
    let mut started = Vec::new();
    let cost = bench
        .measure(async || {
            for _ in 0..STARTS {
                started.push(begin(bench, &at_work()).await);
            }
        })
        .await;
    cost.each(f64::from(STARTS), idle).print("start a session, to its first turn");
    for session in &started {
        end(session).await;
    }
}

/// A turn that keeps running, so that commands find a working agent.
fn at_work() -> Value {
    json!({ "steps": [{ "turn": { "steps": [{ "wait": 3_600_000 }] } }] })
}

fn mean(costs: &[Cost]) -> Cost {
    let none = Cost::default();
    let sum = costs.iter().fold(none.clone(), |sum, cost| sum.plus(cost, 1.0));
    sum.each(costs.len() as f64, &none)
}

fn order(bench: &Bench, script: &Value) -> Value {
    let text = script.to_string();
    let file = bench.folder.path().join(format!("{}.json", text.len()));
    std::fs::write(&file, text).unwrap();
    json!({
        "workingDirectory": bench.folder.path(),
        "objective": "Make the tests of the shop pass",
        "budgetCapUsd": "50",
        "adapter": "script",
        // The script is in a file, so that it does not enlarge the session's item.
        "adapterOptions": { "scriptFile": file },
    })
}

/// A session whose first turn has started.
async fn begin(bench: &Bench, script: &Value) -> Session {
    let session = Session::start(&bench.api, order(bench, script)).await;
    session.until_status("Running").await;
    session
}

async fn end(session: &Session) {
    session.post("/cancel", json!({})).await;
    session.until_status("Cancelled").await;
}

/// The cost of an event of an agent that thinks, calls a tool, sends a message and reports usage: five events per round, with a pause after
/// each.
async fn events(bench: &Bench, n: u32, pause: &Value, idle: &Cost) -> Cost {
    let text = "I looked at the file and found that the total is rounded before the tax is added, not after.";
    let wait = pause["wait"].as_u64().unwrap();
    let round = json!([
        { "think": text }, pause,
        { "tool": { "name": "Bash", "input": { "command": "cargo test --workspace" }, "result": text.repeat(6), "ms": wait } },
        pause,
        { "say": text }, pause,
        { "usage": { "costUsd": "0.0001", "tokens": { "inputTokens": 900, "outputTokens": 120 } } }, pause,
    ]);
    let repeat = json!({ "repeat": { "times": n / 5, "steps": round } });
    let script = json!({ "steps": [
        { "turn": { "steps": [{ "say": "I am there." }] } },
        { "waitForMessage": {} },
        { "turn": { "steps": [repeat, { "tasks": [] }, { "wait": 3_600_000 }] } },
    ] });
    let session = Session::start(&bench.api, order(bench, &script)).await;
    session.until_status("Idle").await;
    let cost = bench
        .measure(async || {
            session.say("go", "Queued").await;
            // One event per pause, and some time for the last events.
            let paced = Duration::from_millis(wait) * n;
            tokio::time::sleep(paced + Duration::from_secs(1)).await;
            let all = json!(1020 * u64::from(n / 5));
            let done = async || (session.view().await["budget"]["tokensUsed"] == all).then_some(());
            session.until_within(Duration::from_mins(3), "all events", done).await;
        })
        .await;
    end(&session).await;
    cost.each(f64::from(n), idle)
}
