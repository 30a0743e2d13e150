//! The engine of a worker: runs sidecars on this machine, and reports their exits.
//!
//! | module | content |
//! |---|---|
//! | [`worker`] | [`Worker`], the engine itself: implements `AgentRuntime` |
//! | `inner` | what the tasks of a worker share |
//! | `launch` | claims, prepares and starts a run |
//! | `supervisor` | waits for the end of a run, drains its spool, reports its exit |
//! | `adoption` | finds the runs of an earlier worker |
//! | `registry` | the active runs and their phases |
//! | `process`, [`containers`] | sidecars as child processes, or in containers |
//! | [`workspace`] | the workspace that the worker offers to agents, and the mounts and limits of their containers |
//! | `run_dir`, `retention` | the directory of a run, and its removal |
//! | `replaceable` | opens files that an agent in a container can replace |
//! | [`gateway_urls`] | the addresses at which the sidecars of a data folder reach their control plane |
//! | [`session_folder`] | whether a session has run here |
//! | `run_lock`, `session_lock` | the locks that show what lives |
//! | `drain`, `exit` | publishes what a sidecar left; describes how it ended |
//! | [`claims`] | claims a run, so that it starts once |
//! | [`config`], [`environment`], [`secrets`] | settings, the environment of sidecars, and the secrets of agents |

pub mod claims;
pub mod config;
pub mod confinement_support;
pub mod containers;
pub mod environment;
pub mod gateway_urls;
pub mod secrets;
pub mod session_folder;
pub mod worker;
pub mod workspace;

mod adoption;
mod drain;
mod exit;
mod inner;
mod launch;
mod process;
mod registry;
mod replaceable;
mod retention;
mod run_dir;
mod run_lock;
mod session_lock;
mod supervisor;
