//! Tests of the domain's public interface: the transition table, scenarios in given-when-then form, and properties of random
//! sequences of operations.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::too_many_lines)]
// `|s| s.pause()` reads like a step of a scenario.
#![allow(clippy::redundant_closure_for_method_calls)]

mod coherence_quality;
mod decision_properties;
mod free_decisions;
mod inbox;
mod injection_ledger;
mod knowledge;
mod pool_model;
mod project_account;
mod projects;
mod properties;
mod reference;
mod scenario;
mod scenarios;
mod schedules;
mod serde;
mod skill_properties;
mod transitions;
mod trust_properties;
mod two_phase;
