//! The contract suites of the ports, run on every engine.

// Helpers panic on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod blobs;
mod broker;
mod clock;
mod cloud;
mod inbox;
mod model;
mod pool;
mod sqlite;
mod table;
mod throttling;
