//! The published language between the control plane and its sidecars (S0 8.2, 8.3; rulings 4 to 11).
//!
//! - [`envelope`]: what every message looks like on a queue, and its signature
//! - [`event`]: raw events, from a sidecar to the control plane
//! - [`command`]: commands, from the control plane to a sidecar
//! - [`launch`]: what a runtime gives a sidecar to start with
//! - [`gateway`]: how a sidecar reaches the broker of an embedded server over HTTP
//! - [`worker`]: what goes between the control plane and a worker that stands elsewhere
//!
//! Types are read leniently: what an agent sends is normalised, never refused (ruling 6). Unknown fields
//! are ignored so that either side may be newer than the other.

pub mod command;
pub mod coverage;
pub mod envelope;
pub mod event;
pub mod gateway;
pub mod keys;
pub mod launch;
pub mod schema;
pub mod worker;

pub use command::Command;
pub use envelope::{Envelope, Signed};
pub use event::RawEvent;
pub use keys::{EnvelopeKey, GatewayToken, RootSecret};
