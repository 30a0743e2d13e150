//! Benches of agents: the native loop, its start, its memory, steering, streamed tokens, verdicts on tool calls, the emergency brake,
//! and the stream of a project. They print figures and assert only that the work was done.
//!
//! `cargo bench -p pilothouse-tests --bench agents [-- loop start memory steering tokens verdicts brakes stream crowd]`
//!
//! The model is a script in this process, on loopback, so the figures exclude the model. The benches need the programs:

// Benches panic on errors, and print ratios of counts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod alone;
mod brakes;
mod crowd;
mod figures;
mod gateway;
mod in_process;
mod live;
mod sidecars;
mod stream;
mod verdicts;

use std::pin::Pin;

type Part = fn() -> Pin<Box<dyn Future<Output = ()>>>;

fn main() {
    if let Ok(folder) = std::env::var(alone::FOLDER) {
        return alone::agent(folder.as_ref());
    }
    // `cargo test` runs benches with `--test`; skip the work then.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("agents, {cores} cores, {}", if cfg!(debug_assertions) { "dev build" } else { "bench build" });
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let parts: [(&str, Part); 9] = [
        ("loop", || Box::pin(in_process::turns())),
        ("start", || Box::pin(sidecars::start())),
        ("memory", || Box::pin(sidecars::memory())),
        ("steering", || Box::pin(live::steering())),
        ("tokens", || Box::pin(live::tokens())),
        ("verdicts", || Box::pin(verdicts::verdicts())),
        ("brakes", || Box::pin(brakes::brakes())),
        ("stream", || Box::pin(stream::latency())),
        ("crowd", || Box::pin(brakes::crowded())),
    ];
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (name, part) in parts {
        if named.is_empty() || named.iter().any(|n| n == name) {
            runtime.block_on(part());
        }
    }
}
