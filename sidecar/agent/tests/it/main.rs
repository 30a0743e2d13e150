//! The agent from outside: the promises of S1, clause by clause.

// Clippy's exception for tests does not cover their helper functions.
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
