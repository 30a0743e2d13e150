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
/// Events of a working agent: thirty a minute, and all at once.
const EVENTS: u32 = 60;
const BURST: u32 = 600;
/// After the message that starts the agent, its sidecar assumes for a minute that somebody watches, and sends each event at once
/// (decision 51).
const WATCHED: Duration = Duration::from_secs(62);
/// When the agent begins to report after that message. The bench needs some seconds before it measures.
const BEGINS: Duration = Duration::from_secs(80);

/// When an agent reports the five events of a round: a thought, a text, its usage and a call, and later the result of the call.
struct Timing {
    after_each: Duration,
    call: Duration,
    after_round: Duration,
}

impl Timing {
    const fn seconds(after_each: u64, call: u64, after_round: u64) -> Self {
        Self {
            after_each: Duration::from_secs(after_each),
            call: Duration::from_secs(call),
            after_round: Duration::from_secs(after_round),
        }
    }

    fn round(&self) -> Duration {
        self.after_each * 4 + self.call + self.after_round
    }
}

/// One event every two seconds, none of which can be sent with the next one.
const EVEN: Timing = Timing::seconds(2, 2, 0);
/// A response at once, and the result of its call soon or late.
const SHORT_CALL: Timing = Timing::seconds(0, 1, 9);
const LONG_CALL: Timing = Timing::seconds(0, 4, 6);
const FULL_SPEED: Timing = Timing::seconds(0, 0, 0);

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
    // The cost of an idle session is subtracted, with its heartbeats. A working session sends none, so each event is shown too cheap by
    // its share of them. The hours include all costs.
    let even = events(bench, EVENTS, &EVEN, &idle).await;
    even.print("event, one every two seconds");
    let short = events(bench, EVENTS, &SHORT_CALL, &idle).await;
    short.print("event, rounds with a short call");
    let long = events(bench, EVENTS, &LONG_CALL, &idle).await;
    long.print("event, rounds with a long call");
    events(bench, BURST, &FULL_SPEED, &idle).await.print("event, at full speed");
    println!("an hour of a session with 30 events a minute, without its container");
    let ways = [("one every two seconds", even), ("rounds, half of the calls short", mean(&[short, long]))];
    for (name, event) in ways {
        let hour = (1800.0 * event.dollars() + idle.hourly().dollars()) / 1e6;
        println!("  {name:<34} ${hour:.4}");
    }
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

/// The cost of an event of an agent that thinks, sends a message, reports usage and calls a tool: five events per round.
async fn events(bench: &Bench, n: u32, timing: &Timing, idle: &Cost) -> Cost {
    let text = "I looked at the file and found that the total is rounded before the tax is added, not after.";
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap();
    let wait = |time: Duration| json!({ "wait": millis(time) });
    let pause = wait(timing.after_each);
    let round = json!([
        { "think": text }, pause,
        { "say": text }, pause,
        { "usage": { "costUsd": "0.0001", "tokens": { "inputTokens": 900, "outputTokens": 120 } } }, pause,
        { "tool": { "name": "Bash", "input": { "command": "cargo test --workspace" }, "result": text.repeat(6),
            "ms": millis(timing.call) } },
        pause, wait(timing.after_round),
    ]);
    let repeat = json!({ "repeat": { "times": n / 5, "steps": round } });
    let script = json!({ "steps": [
        { "turn": { "steps": [{ "say": "I am there." }] } },
        { "waitForMessage": {} },
        { "turn": { "steps": [wait(BEGINS), repeat, { "tasks": [] }, { "wait": 3_600_000 }] } },
    ] });
    let session = Session::start(&bench.api, order(bench, &script)).await;
    session.until_status("Idle").await;
    let asked = tokio::time::Instant::now();
    session.say("go", "Queued").await;
    // After a command of a person the sidecar sends everything at once for this long, which is not measured here.
    tokio::time::sleep(WATCHED).await;
    let cost = bench
        .measure(async || {
            // Some time for the message before the events, and for the last of them after.
            let over = asked + BEGINS + timing.round() * (n / 5) + Duration::from_secs(4);
            tokio::time::sleep_until(over).await;
            let all = json!(1020 * u64::from(n / 5));
            let done = async || (session.view().await["budget"]["tokensUsed"] == all).then_some(());
            session.until_within(Duration::from_mins(3), "all events", done).await;
        })
        .await;
    end(&session).await;
    cost.each(f64::from(n), idle)
}
