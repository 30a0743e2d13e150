//! The Lambda artifact. `_HANDLER` selects a function of the catalog. Every function is deployed from the same artifact, with a
//! separate name, role and limits.
//!
//! | module | content |
//! |---|---|
//! | [`settings`] | the environment, read once |
//! | [`start`] | from the environment to a [`Dispatch`]: clients, engines, the root secret, warm connections |
//! | [`dispatch`] | determines the function for an event |
//! | [`http`], [`queue`], [`table_stream`], [`socket`] | the kinds of events and their responses |
//! | [`invocation`] | one invocation: its log fields, its metrics, its panics |
//! | [`observe`] | structured logs, metrics in `CloudWatch`'s embedded format |
//!
//! If `_HANDLER` names no function, as under `cargo lambda watch`, the shape of each event determines the function.

pub mod dispatch;
pub mod failure;
pub mod http;
mod http_client;
pub mod invocation;
pub mod observe;
pub mod queue;
pub mod settings;
pub mod socket;
pub mod start;
pub mod table_stream;

pub use dispatch::Dispatch;
pub use failure::Failure;
pub use settings::Settings;
