//! The translation of Claude Code's stream messages, against recordings of the runtime and against cases that they
//! do not hold.

// Helpers of tests may fail a test; the lint's own exception covers only functions marked as tests.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod playback;
mod recorded_errors;
mod recorded_tour;
mod support;
