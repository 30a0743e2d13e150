//! Events of every kind through the dispatch, in one process, on the embedded engines.

// Helpers of tests speak by panicking, as the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
#[path = "../fake/mod.rs"]
mod fake;
mod ground;
mod http;
mod invocations;
mod process;
mod relay;
mod sockets;
mod starting;
mod tasks;
mod traces;
