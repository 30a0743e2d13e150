//! The real sidecar program against a fake gateway on loopback.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod claude_code;
mod cloud;
mod container;
mod conversations;
mod deliverables;
mod delivery;
mod faults;
mod gateway;
mod governed;
mod guards;
mod lifecycle;
mod liveness;
mod memory;
mod native;
mod own_tools;
mod process;
mod real_sqs;
mod recording;
mod schema;
mod shim;
mod sidecar;
mod sqs;
mod steering;
mod validation;
mod verdicts;
