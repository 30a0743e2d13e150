//! The agent loop from outside: what S1 promises, clause by clause.

// Clippy knows test functions, but not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod compaction;
mod extensions;
mod guard;
mod killed;
mod loops;
mod models;
mod money;
mod resume;
mod storm;
mod support;
mod told;
mod tools;
