//! The requirements of S1, tested through the public API.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod api;
mod compaction;
mod events;
mod extensions;
mod guard;
mod interleavings;
mod killed;
mod loops;
mod models;
mod money;
mod resume;
mod support;
mod tools;
