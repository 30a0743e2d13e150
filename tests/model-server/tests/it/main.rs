//! The model server over plain HTTP: what clients of each provider get.

// Clippy knows test functions, but not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod chat;
mod checks;
mod failures;
mod fixture;
mod program;
mod responses;
mod script;
mod support;
