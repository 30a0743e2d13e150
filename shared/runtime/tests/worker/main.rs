//! The worker with real processes: `fake_sidecar.sh` stands in for the sidecar, as it says itself.

// Clippy knows test functions as tests, not what they share.
#![allow(clippy::unwrap_used)]

mod adoption;
mod containers;
mod launching;
mod stopping;
mod support;
