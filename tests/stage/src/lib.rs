//! What the functions of a test stand on: embedded engines in a folder of their own, a clock that the test sets, and
//! ports with nothing behind them.
//!
//! - [`Ground`]: table, queues and blobs, and the parts of an app over them
//! - [`TestClock`]: a time that passes when a test says so
//! - [`NoRuntime`], [`NoWakes`]: a runtime that runs nothing, and streams that nobody follows
//! - [`new_session`], [`with_run`], [`keep`]: a session that is there, without any function
//! - [`sealed`]: what a sidecar would have sent
//!
//! A stage of a test takes [`Ground::parts`], replaces what it is about, and makes its app of that.
//!
//! A harness that cannot go on is a failed test, so it panics.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod clock;
mod ground;
mod ports;
mod session;

pub use clock::TestClock;
pub use ground::Ground;
pub use ports::{NoRuntime, NoWakes};
pub use session::{keep, new_session, sealed, with_run};
