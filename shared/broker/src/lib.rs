//! The broker: the Queue port and its embedded engine, durable in SQLite.

#[cfg(feature = "contract")]
pub mod contract;
pub mod embedded;
pub mod queue;

pub use embedded::EmbeddedBroker;
pub use queue::*;
