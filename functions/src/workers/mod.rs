//! Workers that stand elsewhere: people's own machines, where their repositories and tools are.
//!
//! | file | what it holds |
//! |---|---|
//! | [`dispatch`], `filling` | central assignment: which worker runs what |
//! | [`runtime`] | the `AgentRuntime` over it |
//! | [`heartbeat`], [`list`], [`remove`] | workers come, show themselves, and go |
//! | [`orders`], [`claim`], [`exit`] | what a worker is told, starts, and reports |
//! | [`ends`] | the runtime's signed word that a run is over |
//!
//! A worker runs what its owner's sessions ask for, and nobody else's, unless its owner is an operator of the deployment
//! and shares it. Sessions ask for more by labels that begin with `worker/`: `worker/gpu=a100` for one with that label,
//! `worker/id` for one by name. The folders of a session are on the worker that ran it first, and it goes on there (ruling
//! 23) for as long as that worker is registered.

pub mod claim;
pub mod dispatch;
pub mod ends;
pub mod exit;
pub mod heartbeat;
pub mod list;
pub mod orders;
pub mod remove;
pub mod request;
pub mod runtime;

mod filling;

pub use dispatch::{Dispatch, DispatchError, Pace};
pub use ends::Ends;
pub use runtime::CloudRuntime;
