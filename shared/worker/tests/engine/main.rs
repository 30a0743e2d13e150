//! The worker engine with real processes, and `fake_sidecar.sh` as the sidecar.

// Clippy does not count helpers of tests as tests.
#![allow(clippy::unwrap_used)]

mod adoption;
mod containers;
mod launching;
mod session_lock;
mod stopping;
mod support;
