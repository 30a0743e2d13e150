//! A real server process and real sidecar processes, end to end.
//!
//! Each test has a server of its own and can run beside all others. They need the programs:
//! `cargo build -p pilothouse-cli -p pilothouse-sidecar`. `localstack/test` runs the same tests on functions that are
//! deployed to a local cloud.
// The helpers of tests are tests, too.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod adjust;
mod agent_api;
mod agents_acp;
mod agents_claude;
mod agents_native;
mod auto_continue;
mod bodies;
mod chains;
mod dead_letters;
mod deliverables;
mod delivery;
mod docs;
mod export;
mod hibernation;
mod idempotency;
mod input;
mod killed;
mod lifecycle;
mod money;
mod notifications;
mod pool;
mod queries;
mod quota;
mod recovery;
mod requests;
mod scripts;
mod security;
mod server;
mod skills;
mod steering;
mod stopping;
mod stream;
mod subagents;
mod templates;
mod tokens;
mod transcripts;
mod webhooks;
mod workers;
