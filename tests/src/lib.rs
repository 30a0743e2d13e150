//! End-to-end tests, contract suites and benches of Pilothouse; this library is their harness.
//!
//! - [`ServerProcess`]: a `pilothouse up` process with real sidecars that can be killed and restarted
//! - [`Machine`], [`SmallDisk`]: limits of the machine that a server runs on
//! - [`TerminalProcess`]: a program on a pseudo terminal
//! - [`WorkerProcess`]: a separate `pilothouse worker` process
//! - [`Api`], [`Reply`]: HTTP requests, valid or not
//! - [`Session`]: a session over the API, with helpers that wait for its states
//! - [`Description`]: a deployment on a local cloud, and tokens for it
//! - [`log_capture`]: logs for failure messages
//! - [`processes`]: live sidecars, found by the locks that they hold
//!
//! The harness panics on errors, which fails the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]
// Tests often check a response without using it further.
#![allow(clippy::return_self_not_must_use)]

mod api;
mod deployment;
pub mod log_capture;
pub mod processes;
pub mod programs;
mod server;
mod session;
mod small_disk;
mod terminal;
mod worker;

pub use api::{Api, Reply};
pub use deployment::Description;
pub use server::{Machine, ServerProcess};
pub use session::{PATIENCE, Session};
pub use small_disk::SmallDisk;
pub use terminal::TerminalProcess;
pub use worker::WorkerProcess;
