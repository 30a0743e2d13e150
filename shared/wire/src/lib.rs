//! The protocol between the control plane and its sidecars and workers (S0 8.2, 8.3; decisions 4 to 11).
//!
//! - [`envelope`]: format and signature of messages on a queue
//! - [`event`]: raw events, from a sidecar to the control plane
//! - [`command`]: commands, from the control plane to a sidecar
//! - [`launch`]: launch requests and the parameters of a sidecar
//! - [`gateway`]: HTTP access of a sidecar to the broker of an embedded server
//! - [`worker`]: HTTP interface between the control plane and workers on other machines
//! - [`secrets`]: secrets of agents: launches name them, and workers have their values
//! - [`keys`]: keys, tokens and signatures, derived from one root secret
//!
//! Messages are read leniently: input of an agent is normalised, never refused (decision 6). Unknown fields are ignored, so that
//! either side may be newer than the other.

#![warn(missing_docs)]

pub mod command;
pub mod coverage;
pub mod envelope;
pub mod event;
pub mod gateway;
pub mod keys;
pub mod launch;
pub mod schema;
pub mod secrets;
pub mod worker;

pub use command::Command;
pub use envelope::{Envelope, Signed};
pub use event::RawEvent;
pub use keys::{EnvelopeKey, GatewayToken, RootSecret};
