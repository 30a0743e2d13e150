//! Estimates what commands, events and sessions cost in an AWS account, from the work that the functions do.
//!
//! `cargo bench -p pilothouse-tests --bench costs`
//!
//! The functions run in this process on a table and queues that count billed units (`billed.rs`). Table units follow the published rules of
//! `DynamoDB`, requests are counted, and prices are the AWS list prices of the first region. The duration of a function is an assumption
//! (see the constants below), which the bench of the Lambda artifact checks. Nothing is asserted.

// Benches panic on errors, and print ratios of counts.
#![allow(clippy::unwrap_used, clippy::panic, clippy::cast_precision_loss)]

#[allow(dead_code)] // only a test reads the keys of the items
mod billed;
#[allow(dead_code)]
mod ledger;
mod price;
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;

use ledger::{Bill, Kind};
use serde_json::Value;
use world::{Counts, World, event};

/// A warm invocation with two round trips to the table: its duration in seconds, and its log in KB. Lambda adds no lines for successful
/// invocations.
const TIME: f64 = 0.012;
const LOGGED: f64 = 0.4;
/// In GB, as in the catalog: for functions of the HTTP API, and for functions with a queue or stream trigger.
const MEMORY: [f64; 2] = [0.5, 1.0];

const EVENTS_AN_HOUR: u32 = 1800;
const MEASURED_ROUNDS: u64 = 120;
/// Seconds of a round of ten seconds in which an agent reports its five events: a response at once, and the result of its call. Thirty
/// events a minute.
const SHORT_CALL: [f64; 5] = [0.0, 0.0, 0.0, 0.0, 1.0];
const LONG_CALL: [f64; 5] = [0.0, 0.0, 0.0, 0.0, 4.0];
/// The time that an event waits for others (`sidecar/src/batching.rs`).
const BATCH_WINDOW: f64 = 2.0;

/// The batches of a round, by the rule of sidecars: an event that is not urgent is sent with all that follow it within the window.
fn batches(round: [f64; 5]) -> Vec<usize> {
    let mut batches: Vec<usize> = Vec::new();
    let mut began = f64::NEG_INFINITY;
    for at in round {
        match batches.last_mut() {
            Some(batch) if at < began + BATCH_WINDOW => *batch += 1,
            _ => {
                began = at;
                batches.push(1);
            }
        }
    }
    batches
}

/// The cost of one operation, in units and requests.
struct Cost {
    write_units: f64,
    one_write_units: f64,
    read_units: f64,
    queue_requests: f64,
    invocations: f64,
    http: f64,
}

impl Cost {
    fn of(bill: Bill, counts: Counts, n: f64, http: f64) -> Self {
        // Each commit reaches the relay. Messages that are sent together are also received and deleted together.
        let invocations = bill.commits as f64 + counts.triggering as f64;
        Self {
            write_units: bill.write_units as f64 / n,
            one_write_units: bill.one_write_units as f64 / n,
            // The relay checks for subscribers once per commit.
            read_units: (bill.read_half_units as f64 / 2.0 + bill.commits as f64) / n,
            queue_requests: 3.0 * counts.sends as f64 / n,
            invocations: invocations / n + http,
            http,
        }
    }

    fn mean(all: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| all.iter().map(field).sum::<f64>() / all.len() as f64;
        Self {
            write_units: of(|c| c.write_units),
            one_write_units: of(|c| c.one_write_units),
            read_units: of(|c| c.read_units),
            queue_requests: of(|c| c.queue_requests),
            invocations: of(|c| c.invocations),
            http: of(|c| c.http),
        }
    }

    /// Dollars per million operations.
    fn dollars(&self, write_units: f64) -> f64 {
        let [of_http, of_others] = MEMORY;
        let gb_seconds = TIME * (self.http * of_http + (self.invocations - self.http) * of_others);
        write_units * price::WRITE_UNITS
            + self.read_units * price::READ_UNITS
            + self.queue_requests * price::FIFO_REQUESTS
            + self.http * price::HTTP_REQUESTS
            + self.invocations * (price::INVOCATIONS + LOGGED * price::LOG_KB)
            + gb_seconds * price::GB_SECONDS
    }

    fn print(&self, name: &str) {
        println!(
            "  {name:<36} {:>5.1} WRU ({:>4.1} one write)  {:>4.1} RRU  {:>4.1} SQS  {:>4.1} invocations  ${:>5.2} (${:>5.2})",
            self.write_units,
            self.one_write_units,
            self.read_units,
            self.queue_requests,
            self.invocations,
            self.dollars(self.write_units),
            self.dollars(self.one_write_units),
        );
    }
}

fn main() {
    // `cargo test` runs benches with `--test`; skip the work then.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    // `-- samples FOLDER` writes sample bodies of items, one file per kind.
    let samples = std::env::args().skip_while(|argument| argument != "samples").nth(1);
    runtime.block_on(async {
        println!("a million commands, including all their effects (in brackets: one write for aggregate and events)");
        let mut kinds = commands().await;
        println!("a million events");
        let (alone, of_events) = events("event, 1 per invocation", &[1]).await;
        events("event, 10 per invocation", &[10]).await;
        let (short, _) = events("event, rounds with a short call", &batches(SHORT_CALL)).await;
        let (long, _) = events("event, rounds with a long call", &batches(LONG_CALL)).await;
        println!("an hour of a session with 30 events a minute, without its container");
        let mean = Cost::mean(&[short, long]);
        let ways = [("each event in its own invocation", alone), ("rounds, half of the calls short", mean)];
        for (name, cost) in ways {
            let hour = |units: f64| f64::from(EVENTS_AN_HOUR) * cost.dollars(units) / 1e6;
            println!("  {name:<36} ${:.4} (${:.4})", hour(cost.write_units), hour(cost.one_write_units));
        }
        for (name, kind) in of_events {
            kinds.entry(format!("{name} (events)")).or_insert(kind);
        }
        items(&kinds);
        if let Some(folder) = samples {
            keep(&folder, &kinds);
        }
    });
}

fn items(kinds: &BTreeMap<String, Kind>) {
    println!("items: puts, bytes of JSON, bytes as stored with keys, units outside a transaction (means)");
    for (name, kind) in kinds {
        let n = kind.puts as f64;
        println!(
            "  {name:<20} {:>5}  {:>6.0}  {:>6.0}  {:>4.2}",
            kind.puts,
            kind.body as f64 / n,
            kind.stored as f64 / n,
            kind.units as f64 / n,
        );
    }
}

fn keep(folder: &str, kinds: &BTreeMap<String, Kind>) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, kind) in kinds {
        let name = name.replace([' ', '(', ')'], "");
        std::fs::write(format!("{folder}/{name}.jsonl"), kind.samples.join("\n")).unwrap();
    }
}

async fn commands() -> BTreeMap<String, Kind> {
    let world = World::open().await;
    let session = world.running_session().await;
    let path = format!("/api/agents/sessions/{session}");
    let mut total = Vec::new();
    for (name, method, rest, body, n) in [
        (
            "enqueue a message",
            "POST",
            "/messages/queue",
            r#"{"content":"please look at the tests first"}"#,
            40,
        ),
        ("change the budget", "PATCH", "/budget", r#"{"capUsd":"9"}"#, 40),
    ] {
        let cost = measure(&world, f64::from(n), 1.0, async || {
            for i in 0..n {
                // An unchanged budget would write nothing.
                let body = body.replace('9', &(9 + i).to_string());
                world.call(method, &format!("{path}{rest}"), &body).await;
                world.settle().await;
            }
        })
        .await;
        cost.print(name);
        total.push(cost);
    }
    let cost = measure(&world, 40.0, 1.0, async || {
            for _ in 0..40 {
                let body = r#"{"workingDirectory":"/repo/shop","objective":"Make the tests of the shop pass","budgetCapUsd":"5"}"#;
                world.call("POST", "/api/agents/sessions", body).await;
                world.settle().await;
            }
        })
        .await;
    cost.print("start a session (with the queue of its run)");
    let (pause, resume) = paused_and_resumed(&world, 20).await;
    pause.print("pause, with its acknowledgements");
    resume.print("resume, with its acknowledgements");
    total.extend([cost, pause, resume]);
    let mean = total.iter().map(|c| c.dollars(c.write_units)).sum::<f64>() / total.len() as f64;
    println!("  mean of these: ${mean:.2}");
    world.kinds()
}

/// The cost of `work`, divided by `n`.
async fn measure(world: &World, n: f64, http: f64, work: impl AsyncFnOnce()) -> Cost {
    let (bill, counts) = world.used(work).await;
    Cost::of(bill, counts, n, http)
}

async fn paused_and_resumed(world: &World, n: u32) -> (Cost, Cost) {
    let id = world.running_session().await;
    let (mut pauses, mut resumes) = (Vec::new(), Vec::new());
    for _ in 0..n {
        for (command, costs) in [("pause", &mut pauses), ("resume", &mut resumes)] {
            let path = format!("/api/agents/sessions/{id}/{command}");
            let cost = measure(world, 1.0, 1.0, async || {
                world.call("POST", &path, "{}").await;
                world.settle().await;
                world.acknowledge(id, &format!("{command}_ack")).await;
            });
            costs.push(cost.await);
        }
    }
    (Cost::mean(&pauses), Cost::mean(&resumes))
}

/// Measures events of a working agent: messages, thoughts, tool calls and usage.
async fn events(name: &str, batches: &[usize]) -> (Cost, BTreeMap<String, Kind>) {
    let world = World::open().await;
    let session = world.running_session().await;
    let events = rounds(MEASURED_ROUNDS);
    let work = async || world.work(session, &events, batches).await;
    let cost = measure(&world, events.len() as f64, 0.0, work).await;
    cost.print(name);
    (cost, world.kinds())
}

/// Events of an agent in the order of its work: a response with a thought, a text, a call and its usage, then the result of the call.
fn rounds(n: u64) -> Vec<Value> {
    (0..n).flat_map(|round| [0, 3, 1, 4, 2].map(|kind| event(5 * round + kind))).collect()
}
