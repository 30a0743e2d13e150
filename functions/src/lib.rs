//! The functions of Pilothouse: one file is one function.
//!
//! | folder | functions |
//! |---|---|
//! | [`commands`] | state-changing HTTP functions of owners, by aggregate |
//! | [`queries`] | read-only HTTP functions of owners |
//! | [`agent_api`] | HTTP functions for agents, authenticated by the API key of a session |
//! | [`sidecar_api`] | HTTP functions for sidecars, authenticated by the token of a run |
//! | [`worker_api`] | HTTP functions for workers |
//! | [`acl`] | the anti-corruption layer: one mapping per type of raw event (S0 8.3) |
//! | [`events`] | functions that a queue, the table's stream or a schedule triggers |
//! | [`reactions`] | work that follows a commit: sending commands, launching runs, allocating slots |
//! | [`realtime`] | live streams over WebSocket |
//!
//! [`catalog`] lists all functions. The crate [`pilothouse_app`] holds the application that they share.

pub mod acl;
pub mod agent_api;
mod artifact_content;
mod artifacts;
mod briefs;
pub mod catalog;
mod coherence;
pub mod commands;
mod dead_letters;
pub mod events;
mod fields;
mod free_decisions;
mod images;
mod knowledge;
mod large_body;
mod loading;
mod path;
pub mod queries;
pub mod reactions;
pub mod realtime;
mod session_options;
pub mod sidecar_api;
pub mod worker_api;

pub use catalog::router;
