//! The [`AgentRuntime`] port (S0 8.11 `IAgentRuntime`), and the [`Worker`] that runs sidecars as processes on
//! this machine.
//!
//! - [`port`]: what the control plane asks of a runtime
//! - [`claims`]: the conditional write by which a run is started once, and gets its keys (rulings 7, 8)
//! - [`events`]: how a runtime tells that a run is over
//! - [`worker`]: sidecars as processes, each in its own process group, watched to its end
//! - [`ecs`]: sidecars as ECS tasks
//!
//! # What a sidecar and the worker agree on
//!
//! The worker runs `pilothouse-sidecar run <run-dir>` and, once that process is gone, `pilothouse-sidecar
//! drain <run-dir>`. In the run directory:
//!
//! | file          | written by | what it is                                                              |
//! |---------------|------------|-------------------------------------------------------------------------|
//! | `launch.json` | worker     | [`SidecarLaunch`](pilothouse_wire::launch::SidecarLaunch), mode 0600      |
//! | `lock`        | sidecar    | held by `flock` for the sidecar's whole life; contains its process id   |
//! | `spool.db`    | sidecar    | what it has to publish; without this file nothing is drained            |
//! | `sidecar.log` | both       | standard output and error of `run` and `drain`                          |
//! | `engine`      | worker     | the engine that the sidecar runs in a container of, where it does       |
//! | `exited.json` | worker     | the process is gone; the exit is not reported yet                        |
//! | `finished`    | worker     | the exit was reported                                                   |
//!
//! A sidecar opens `lock` without truncating it, takes the `flock`, exits with code 3 if another holds it or if
//! `exited.json` or `finished` stands beside it, and then writes its process id in decimal digits. It must not
//! pass the descriptor to the processes that it starts. `lock` held means alive; no process id has to be trusted
//! for that. `drain` exits with 0 when everything in the spool was published. It may take the lock too.

pub mod claims;
pub mod config;
pub mod containers;
pub mod ecs;
pub mod environment;
pub mod events;
pub mod port;
pub mod vendor;
pub mod worker;

mod adoption;
mod drain;
mod exit;
mod launching;
mod lock;
mod process;
mod registry;
mod retention;
mod run_dir;
mod watch;

pub use claims::{ClaimError, ClaimOutcome, RunClaims};
pub use config::{Retention, Timing, WorkerConfig};
pub use containers::Containers;
#[cfg(feature = "ecs")]
pub use ecs::{EcsRuntime, EcsSettings};
pub use environment::Environment;
pub use events::{ReportError, RunEvents};
pub use port::{AgentRuntime, LaunchError, ProcessState, RuntimeCapabilities, StopError, StopMode};
pub use vendor::{CredentialVendor, VendError};
pub use worker::{Ports, StartError, Worker};
