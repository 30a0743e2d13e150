//! Templates, without processes and with a clock that is set by hand: what they are changed by, what starts from them, and
//! that each time of a schedule starts one session.

// Helpers of tests speak by panicking, as the tests do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changing;
mod events;
mod schedules;
mod stage;
mod starting;
