//! Measures what commands, events and sessions cost on a deployment in a local cloud.
//!
//! ```text
//! PILOTHOUSE_CLOUD=http://127.0.0.1:4566 cargo bench -p pilothouse-tests --bench cloud [-- PREFIX]
//! ```
//!
//! The bench uses the deployment in `target/deploy/PREFIX.json` (preferably a release build) with a real worker and real sidecars. A proxy
//! counts every request of a function to the cloud, and computes table units from the items by the published rules of DynamoDB.
//! Invocations, their durations and their log sizes come from the functions' logs. Queue requests of other senders are added by rule
//! (`tally.rs`). The cost of an idle session is subtracted. Nothing is asserted.

// Benches panic on errors, and print ratios of counts.
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
    // `cargo test` runs benches with `--test`; skip the work then.
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
