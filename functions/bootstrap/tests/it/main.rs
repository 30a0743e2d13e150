//! Dispatches events of every kind, in one process, on the embedded engines.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod bootstrap_fixture;
#[path = "../fake/mod.rs"]
mod fake;
mod http;
mod invocations;
mod process;
mod relay;
mod sockets;
mod starting;
mod tasks;
mod traces;
