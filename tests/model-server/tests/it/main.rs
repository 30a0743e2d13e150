//! The model server over plain HTTP, as the clients of each provider use it.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod anthropic;
mod chat;
mod checks;
mod embeddings;
mod failures;
mod fixture;
mod gemini;
mod program;
mod responses;
mod script;
mod support;
