//! The promises of the domain, from outside: the transition table, stories in given/when/then, and properties of random
//! lives.

// Helpers of tests are tests, too; `clippy.toml` speaks of test functions alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::too_many_lines)]
// `|s| s.pause()` reads as a step of a story.
#![allow(clippy::redundant_closure_for_method_calls)]

mod given;
mod pool_model;
mod properties;
mod reference;
mod scene;
mod schedules;
mod serde;
mod skill_properties;
mod transitions;
mod two_phase;
