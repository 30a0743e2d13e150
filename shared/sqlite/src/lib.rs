//! One SQLite file with a single group-committing writer: what the embedded engines stand on.
//!
//! All writes of a process go through one thread that owns the only writing connection ([`Database::write`]). It
//! runs what is waiting inside one transaction and answers after one `fsync`, so that many small commits cost
//! little more than one. Reads use read-only connections beside it and never wait for it.

mod clock;
mod database;
mod error;
mod reader;
mod schema;
mod topics;
mod writer;

pub use clock::{Clock, system_clock};
pub use database::{Database, Stats};
pub use error::{OpenError, ReadError, WriteError};
pub use rusqlite;
pub use schema::Schema;
pub use topics::Watch;
pub use writer::Tx;
