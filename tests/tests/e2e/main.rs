//! A real server process and real sidecar processes, end to end.
//!
//! Each test has its own server and can run concurrently with all others. The tests need the programs:
//! `cargo build -p pilothouse-cli -p pilothouse-sidecar`. `localstack/test` runs the same tests on functions that are deployed to a
//! local cloud.
// Helpers panic on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod absence;
mod adjust;
mod agent_api;
mod agents_acp;
mod agents_claude;
mod agents_native;
mod agents_shim;
mod artifacts;
mod authorization;
mod auto_continue;
mod backpressure;
mod bodies;
mod brakes;
mod briefing;
mod chains;
mod checkpoints;
mod coherence;
mod coherence_embeddings;
mod coherence_review;
mod confinement;
mod console;
mod control_story;
mod costs;
mod crashed_agents;
mod dead_letters;
mod decision_timeouts;
mod deliverables;
mod delivery;
mod docs;
mod drafts;
mod export;
mod free_decisions;
mod full_disk;
mod grants;
mod guardrails;
mod hibernation;
mod hostile;
mod idempotency;
mod inbox;
mod inbox_terminal;
mod injections;
mod input;
mod json_order;
mod killed;
mod knowledge_story;
mod leaks;
mod lifecycle;
mod liveness;
mod money;
mod notifications;
mod pool;
mod project_stream;
mod project_watch;
mod projects;
mod queries;
mod quota;
mod recordings;
mod recovery;
mod requests;
mod results;
mod scenarios;
mod scripts;
mod secrets;
mod security;
mod server;
mod settings;
mod skills;
mod steering;
mod stopping;
mod stream;
mod subagents;
mod templates;
mod tokens;
mod transcripts;
mod trust;
mod unreported_files;
mod updates;
mod web_push;
mod webhooks;
mod workers;
