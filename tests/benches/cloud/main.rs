//! What commands, events and sessions cost, counted on a deployment in a local cloud.
//!
//! ```text
//! PILOTHOUSE_CLOUD=http://127.0.0.1:4566 cargo bench -p pilothouse-tests --bench cloud [-- PREFIX]
//! ```
//!
//! The deployment (`target/deploy/PREFIX.json`, which is best of a release build) is used as it is, with a real worker and
//! real sidecars. Every request that a function sends to the cloud goes through a proxy of the bench, which counts it, and
//! works out the units of the table from the items in it, by DynamoDB's published rules. Invocations, their time and what
//! they log are those of the functions' logs. Requests to queues that others send are added by rule (`tally.rs`). What a
//! session costs that does nothing is measured first, and taken off. Nothing is asserted.

// A bench stops at the first thing that is wrong, and prints ratios of counts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::cast_precision_loss)]

#[allow(dead_code)] // the bench of costs uses the rest
#[path = "../costs/ledger.rs"]
mod ledger;
#[path = "../costs/price.rs"]
mod price;

mod deployment;
mod functions;
mod plan;
mod proxy;
mod tally;

use deployment::Deployment;

fn main() {
    // `cargo test` runs benches too, with `--test`: then there is nothing to do.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let Ok(endpoint) = std::env::var("PILOTHOUSE_CLOUD") else {
        println!("skipped: PILOTHOUSE_CLOUD is not set to the address of a local cloud");
        return;
    };
    let prefix = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let deployment = Deployment::open(&endpoint, prefix.as_deref().unwrap_or("pilothouse"));
        let bench = tally::Bench::open(deployment).await;
        plan::carry_out(&bench).await;
        bench.close().await;
    });
}
