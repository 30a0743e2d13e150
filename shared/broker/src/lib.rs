//! The broker: the Queue port and its engines, one durable in SQLite and one in SQS.

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
