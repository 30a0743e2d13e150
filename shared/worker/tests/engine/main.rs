//! The worker engine with real processes, and `fake_sidecar.sh` as the sidecar.

#![allow(clippy::unwrap_used)]

mod adoption;
mod containers;
mod launching;
mod session_lock;
mod stopping;
mod support;
