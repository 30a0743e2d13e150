//! The one Lambda artifact. `_HANDLER` names a function of the catalogue, and that one runs; every function is deployed
//! from the same bytes, with a name, a role and limits of its own.
//!
//! | module | what it holds |
//! |---|---|
//! | [`settings`] | the environment, read once |
//! | [`start`] | from the environment to a [`Dispatch`]: clients, engines, the root secret, warm connections |
//! | [`dispatch`] | which function an event is for |
//! | [`http`], [`queue`], [`table_stream`], [`socket`] | each kind of event, and its answer |
//! | [`invocation`] | one invocation: its log fields, its metrics, its panics |
//! | [`observe`] | structured logs, metrics in `CloudWatch`'s embedded format |
//!
//! Where `_HANDLER` names nothing, as under `cargo lambda watch`, the shape of each event says which function it is for.

pub mod dispatch;
pub mod failure;
pub mod http;
pub mod invocation;
pub mod observe;
mod outside;
pub mod queue;
pub mod settings;
pub mod socket;
pub mod start;
pub mod table_stream;

pub use dispatch::Dispatch;
pub use failure::Failure;
pub use settings::Settings;
