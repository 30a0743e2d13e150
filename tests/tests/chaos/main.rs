//! Nothing lost, nothing twice (S0 8.10; rulings 7 to 17, 28 to 32).
//!
//! Servers and sidecars are killed with SIGKILL at random points while several sessions run, their owner commands them,
//! and envelopes come twice, out of order, malformed or not at all. Then everything that is stored is compared with
//! what the sidecars spooled and with what the owner was answered.
//!
//! | variable | meaning |
//! |---|---|
//! | `PILOTHOUSE_CHAOS_ROUNDS` | kills with what goes on between them; default 200 |
//! | `PILOTHOUSE_CHAOS_SEED` | repeats the decisions of an earlier run; default: another one each time |
//! | `PILOTHOUSE_CHAOS_LANES` | servers at once that share the rounds; default 4 |
//! | `PILOTHOUSE_CHAOS_KEEP` | a folder that gets the data of servers where something was wrong |
//!
//! The decisions of a seed are the same each time; when they meet the machine is not. A violation that a seed shows is
//! likely, not certain, to show again.
//!
//! | file | what it holds |
//! |---|---|
//! | `script` | what the agents do, with everything that goes wrong on their side |
//! | `owner` | what the owner asks, and what was answered |
//! | `lane` | one server: its rounds, and settling down after them |
//! | `stalls` | when the machine itself stood still |
//! | `check` | what must hold in the end |

// A test that cannot go on has failed, also in its helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod check;
mod lane;
mod owner;
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
async fn nothing_is_lost_and_nothing_happens_twice_whatever_is_killed() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let seed = variable("PILOTHOUSE_CHAOS_SEED", u64::try_from(now % 1_000_000_007).unwrap());
    let rounds = variable("PILOTHOUSE_CHAOS_ROUNDS", 200);
    let lanes = variable("PILOTHOUSE_CHAOS_LANES", 4).clamp(1, rounds.max(1));
    println!("PILOTHOUSE_CHAOS_SEED={seed} PILOTHOUSE_CHAOS_ROUNDS={rounds} PILOTHOUSE_CHAOS_LANES={lanes}");

    let mut running = JoinSet::new();
    for lane in 0..lanes {
        // The first lanes play what the division leaves over.
        let rounds = rounds / lanes + u64::from(lane < rounds % lanes);
        running.spawn(lane::run(seed.wrapping_add(lane), lane, rounds));
    }
    let mut violations = Vec::new();
    while let Some(lane) = running.join_next().await {
        let report = lane.unwrap_or_else(|error| panic!("a lane of seed {seed} broke off: {error}"));
        println!("{}", report.summary);
        violations.extend(
            report
                .violations
                .into_iter()
                .map(|violation| format!("seed {seed}, lane {}, {violation}", report.lane)),
        );
    }
    assert!(
        violations.is_empty(),
        "{} violations of seed {seed}:\n\n{}",
        violations.len(),
        violations.join("\n\n")
    );
}
