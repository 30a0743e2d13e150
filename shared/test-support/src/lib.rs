//! Helpers for tests of functions: embedded engines in a temporary folder, a clock that a test controls, and ports
//! without effect.
//!
//! - [`EmbeddedEngines`]: table, queues and blobs, and the parts of an app on them
//! - [`TestClock`]: a clock that a test controls
//! - [`InertRuntime`], [`InertNotifier`]: a runtime that runs nothing, and a notifier that never notifies
//! - [`new_session`], [`create_session_with_run`], [`commit_events`]: stores a session without calling a function
//! - [`sealed_event`], [`sealed_event_at`]: an event as a sidecar sends it
//! - [`received`]: a message as its consumer receives it
//! - [`launch_request`]: a request to run a sidecar
//! - [`FaultyTable`]: a table whose commits lose races or fail, as a test demands
//!
//! A fixture takes [`EmbeddedEngines::parts`], replaces the parts that the test is about, and creates its app.
//!
//! Helpers panic on errors: a failed set-up is a failed test.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod clock;
mod embedded_engines;
mod faulty_table;
mod inert_ports;
mod launches;
mod sessions;

pub use clock::TestClock;
pub use embedded_engines::EmbeddedEngines;
pub use faulty_table::{CrashPoint, FaultyTable};
pub use inert_ports::{InertNotifier, InertRuntime};
pub use launches::launch_request;
pub use sessions::{
    commit_events, create_session_with_run, new_session, received, sealed_event, sealed_event_at,
};
