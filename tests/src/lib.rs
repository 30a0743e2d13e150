//! End-to-end tests, contract suites and benches of Pilothouse; this library is their harness.
//!
//! - [`ServerProcess`]: a real `pilothouse up`, with real sidecars, that can be killed and started again
//! - [`WorkerProcess`]: a real `pilothouse worker` for it, elsewhere
//! - [`Api`], [`Reply`]: requests as any program would send them, with whatever is wrong with them
//! - [`Session`]: a session over the API, and waiting for what must become of it
//! - [`Description`]: a deployment on a local cloud, and tokens for it
//! - [`witness`]: what was logged, when something fails
//! - [`processes`]: the sidecars that are alive, known by the locks that they hold
//!
//! A harness that cannot go on is a failed test, so it panics.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::missing_panics_doc)]
// An answer that was checked may well be all that a test wants.
#![allow(clippy::return_self_not_must_use)]

mod api;
mod deployment;
pub mod processes;
pub mod programs;
mod server;
mod session;
pub mod witness;
mod worker;

pub use api::{Api, Reply};
pub use deployment::Description;
pub use server::ServerProcess;
pub use session::{PATIENCE, Session};
pub use worker::WorkerProcess;
