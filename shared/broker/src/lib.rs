//! The broker: a port for FIFO queues, with an engine on SQLite and one on SQS.

#[cfg(feature = "contract")]
pub mod contract;
pub mod embedded;
pub mod queue;
#[cfg(feature = "sqs")]
pub mod sqs;

pub use embedded::EmbeddedBroker;
pub use queue::*;
#[cfg(feature = "sqs")]
pub use sqs::{SqsBroker, SqsConfig};
