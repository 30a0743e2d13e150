//! The translation of Claude Code's stream messages, tested with recordings and with further cases.

// Clippy's exception for tests does not cover their helper functions.
#![allow(clippy::unwrap_used, clippy::panic)]

mod cases;
mod playback;
mod recorded_errors;
mod recorded_tour;
mod support;
