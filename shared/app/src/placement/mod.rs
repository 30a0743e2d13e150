//! Placement: assigns runs to workers, which are machines of owners with their repositories and tools.
//!
//! A worker runs only the sessions of its owner, unless its owner is an operator of the deployment and shares the worker. A
//! session selects workers by labels that begin with `worker/`: `worker/gpu=a100` selects workers with that label, `worker/id`
//! selects one by name. The folders of a session are on the worker that ran it first, and the session returns to that worker
//! (decision 23) as long as it is registered. [`pilothouse_domain::placement`] has these rules.
//!
//! Every change is a transaction under the versions that it is based on ([`pilothouse_store::workers`]), so that launches,
//! heartbeats and claims may run concurrently.

mod assigner;
mod assignment;
mod changes;
mod claim;
mod facts;
mod heartbeat;
mod launch;
mod launch_request;
mod removal;
mod runtime;
mod suitable;

pub use assigner::{AssignmentError, WorkerAssigner};
pub use claim::Claim;
pub use launch_request::launch_request;
pub use runtime::WorkerRuntime;
