//! The real program against a gateway on loopback.

// Clippy knows test functions, but not what they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acp;
mod claude_code;
mod cloud;
mod container;
mod deliverables;
mod delivery;
mod faults;
mod gateway;
mod guards;
mod lifecycle;
mod memory;
mod native;
mod own_tools;
mod process;
mod real_sqs;
mod recording;
mod schema;
mod sidecar;
mod sqs;
mod steering;
mod validation;
