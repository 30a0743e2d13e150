//! The functions of Pilothouse: one file, one function.
//!
//! | folder | what it holds |
//! |---|---|
//! | [`sessions`], [`messages`], [`requests`], [`pool`], [`chains`] | commands and queries of owners, over HTTP |
//! | [`templates`] | what sessions are started from |
//! | [`records`] | the read models of a session: activity, messages, tool calls, logs, metrics |
//! | [`agent`] | what an agent calls with its session's key |
//! | [`acl`] | the anti-corruption layer: one mapping a raw event (S0 8.3) |
//! | [`intake`] | takes events from the broker, in order and once, and applies the mappings |
//! | [`skills`] | skills, their memory pills and consolidation |
//! | [`config`] | what a session's agent works with |
//! | [`relay`] | hands what was committed to who must act upon it |
//! | [`reactions`] | what follows from a commit: commands, launches, slots |
//! | [`telling`], [`notifications`], [`webhooks`] | what owners and other contexts are told |
//! | [`clock`] | what is due |
//! | [`stream`] | the live stream |
//! | [`workers`] | workers that stand elsewhere: assignment, claims, ends |
//! | [`runs`] | what runs sidecars tells of them: ECS tasks that stopped |
//! | [`operations`] | what only operators may do |
//! | [`gateway`] | how sidecars reach the broker of an embedded server |
//! | [`catalogue`] | the one list of all of them; routes and the OpenAPI document are made from it |
//! | [`trace`] | where the work at hand stands in a trace |
//! | [`edge`], [`app`], [`change`], [`owned`], [`api`], [`outside`] | what every function stands on |

pub mod acl;
pub mod agent;
pub mod api;
pub mod app;
pub mod catalogue;
pub mod chains;
pub mod change;
pub mod clock;
pub mod config;
pub mod edge;
pub mod gateway;
pub mod intake;
pub mod messages;
pub mod notifications;
pub mod openapi;
pub mod operations;
pub mod outside;
pub mod owned;
pub mod pool;
pub mod queues;
pub mod reactions;
pub mod records;
pub mod relay;
pub mod requests;
pub mod runs;
pub mod sessions;
pub mod skills;
pub mod stream;
pub mod telling;
pub mod templates;
pub mod trace;
pub mod webhooks;
pub mod workers;

pub use app::{App, METRICS, Parts};
pub use catalogue::router;
