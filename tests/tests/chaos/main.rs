//! Random faults neither lose nor duplicate data (S0 8.10; decisions 7 to 17, 28 to 32).
//!
//! The test kills (SIGKILL) and suspends (SIGSTOP) servers and sidecars at random points, keeps servers down for minutes, steps their
//! clocks, and fills their disks. Meanwhile several sessions run, their owners send commands and pull brakes, and envelopes arrive duplicated, out of
//! order, malformed or never. Half of the servers have few descriptors. In the end, the test compares all stored data with the spools of
//! the sidecars and with the responses to the owners.
//!
//! | variable | meaning |
//! |---|---|
//! | `PILOTHOUSE_CHAOS_ROUNDS` | number of rounds, each with a fault; default 60; 200 before a release |
//! | `PILOTHOUSE_CHAOS_SEED` | repeats the decisions of an earlier run; default: random |
//! | `PILOTHOUSE_CHAOS_LANES` | concurrent servers that share the rounds; default 4 |
//! | `PILOTHOUSE_CHAOS_BRAKES` | number of brakes on the agents of a project; default 3 |
//! | `PILOTHOUSE_CHAOS_AGENTS` | number of agents under these brakes; default 8 |
//! | `PILOTHOUSE_CHAOS_KILLS` | number of kills while agents report artifacts; default 20; 100 before a release |
//! | `PILOTHOUSE_CHAOS_KEEP` | folder for the data of servers with violations |
//!
//! A seed repeats the decisions but not their timing, so a violation may not occur again.
//!
//! | file | content |
//! |---|---|
//! | `script` | the scripts of the agents, with faults on their side |
//! | `owner` | the requests of the owners and the responses |
//! | `brakes` | brakes on all agents of a project |
//! | `artifacts` | agents that report artifacts |
//! | `rounds` | one server: its rounds, and the wait until it settles |
//! | `stalls` | times in which the machine stalled |
//! | `check` | the invariants of the stored data |

// Helpers panic on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod artifacts;
mod brakes;
mod check;
mod owner;
mod rounds;
mod script;
mod stalls;

use std::time::{SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn random_kills_lose_and_duplicate_nothing() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = variable("PILOTHOUSE_CHAOS_SEED", u64::try_from(now % 1_000_000_007).unwrap());
    let rounds = variable("PILOTHOUSE_CHAOS_ROUNDS", 60);
    let lanes = variable("PILOTHOUSE_CHAOS_LANES", 4).clamp(1, rounds.max(1));
    println!("PILOTHOUSE_CHAOS_SEED={seed} PILOTHOUSE_CHAOS_ROUNDS={rounds} PILOTHOUSE_CHAOS_LANES={lanes}");

    let mut running = JoinSet::new();
    for lane in 0..lanes {
        // The first lanes play the remainder of the division.
        let rounds = rounds / lanes + u64::from(lane < rounds % lanes);
        running.spawn(rounds::run(seed.wrapping_add(lane), lane, rounds));
    }
    let mut violations = Vec::new();
    while let Some(lane) = running.join_next().await {
        let report = lane.unwrap_or_else(|error| panic!("a lane of seed {seed} panicked: {error}"));
        println!("{}", report.summary);
        violations.extend(
            report
                .violations
                .into_iter()
                .map(|violation| format!("seed {seed}, lane {}, {violation}", report.lane)),
        );
    }
    none(seed, &violations);
}

/// No agent starts under a brake or acts after it stopped, every stop is confirmed, and the release resumes all.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn brakes_stop_all_agents_and_resume_them_while_processes_are_killed() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = variable("PILOTHOUSE_CHAOS_SEED", u64::try_from(now % 1_000_000_007).unwrap());
    let rounds = variable("PILOTHOUSE_CHAOS_BRAKES", 3);
    let agents = variable("PILOTHOUSE_CHAOS_AGENTS", 8);
    println!(
        "PILOTHOUSE_CHAOS_SEED={seed} PILOTHOUSE_CHAOS_BRAKES={rounds} PILOTHOUSE_CHAOS_AGENTS={agents}"
    );
    let (summary, violations) = brakes::run(seed, rounds, usize::try_from(agents).unwrap()).await;
    println!("{summary}");
    none(seed, &violations.iter().map(ToString::to_string).collect::<Vec<_>>());
}

/// No uploaded artifact is lost or stored twice, no event is applied twice, and each agent has a way to recover.
#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn killed_agents_lose_no_artifact_and_recover() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = variable("PILOTHOUSE_CHAOS_SEED", u64::try_from(now % 1_000_000_007).unwrap());
    let rounds = variable("PILOTHOUSE_CHAOS_KILLS", 20);
    println!("PILOTHOUSE_CHAOS_SEED={seed} PILOTHOUSE_CHAOS_KILLS={rounds}");
    none(seed, &artifacts::run(seed, rounds).await);
}

fn none(seed: u64, violations: &[String]) {
    assert!(
        violations.is_empty(),
        "{} violations of seed {seed}:\n\n{}",
        violations.len(),
        violations.join("\n\n")
    );
}
