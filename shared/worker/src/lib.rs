//! Runs sidecars on this machine, as processes or in containers.
//!
//! - [`engine`]: [`Worker`] starts sidecars, supervises them, and adopts them after its own restart. The embedded server has one inside.
//! - [`remote`]: [`RemoteWorker`] connects a [`Worker`] to a control plane elsewhere over HTTP: heartbeats, assignments, claims, exits.
//!
//! # The protocol between worker and sidecar
//!
//! The worker runs `pilothouse-sidecar run <run-dir>`. After that process has ended it runs `pilothouse-sidecar drain <run-dir>`.
//! The run directory contains:
//!
//! | file          | written by | content                                                                   |
//! |---------------|------------|---------------------------------------------------------------------------|
//! | `launch.json` | worker     | [`SidecarLaunch`](pilothouse_wire::launch::SidecarLaunch), mode 0600      |
//! | `lock`        | sidecar    | process id of the sidecar, which holds a `flock` on the file while it lives |
//! | `spool.db`    | sidecar    | events to publish; without this file there is nothing to drain            |
//! | `sidecar.log` | both       | standard output and error of `run` and `drain`                            |
//! | `exited.json` | worker     | the exit of the process, which is not reported yet                        |
//! | `finished`    | worker     | the exit, which was reported                                              |
//!
//! A sidecar opens `lock` without truncating it and acquires the `flock`. It exits with code 3 if another process holds the lock,
//! or if `exited.json` or `finished` exists. Then it writes its process id in decimal digits. It must not pass the descriptor to
//! the processes that it starts. A held lock means that the sidecar lives, whatever process ids are reused. `drain` may hold the
//! lock too; it exits with 0 when all events in the spool are published.
//!
//! If the sidecar runs in a container, `engines/{run}` has the container engine until the exit is reported. It is outside of the run
//! directory, because the agent of a container may be able to write there. So the worker and `drain` follow no link in that
//! directory, and `launch.json` is mounted read-only.
//!
//! `sessions/{id}/lock` is the lock of a session. The worker starts a run only while it holds that lock exclusively; the sidecar
//! and the guards of its programs share it until they end.

pub mod engine;
pub mod remote;

pub use engine::claims::{ClaimOutcome, RunClaims};
pub use engine::config::{Retention, Timing, WorkerConfig};
pub use engine::confinement_support::{ConfinementSupport, confinement_support};
pub use engine::containers::Containers;
pub use engine::environment::{CLAUDE, Environment, check_passed_name, model_variables};
pub use engine::gateway_urls::gateway_urls;
pub use engine::secrets::{WorkerSecrets, check_private};
pub use engine::session_folder::has_session_folder;
pub use engine::worker::{Ports, StartError, Worker};
pub use engine::workspace::{free_disk, is_installed};
pub use remote::{
    RemoteWorker, RemoteWorkerError, RemoteWorkerSettings, WorkerIdError, load_or_create_worker_id,
};
