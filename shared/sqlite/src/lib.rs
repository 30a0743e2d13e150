//! A SQLite file with a single writer that commits in groups. The embedded engines and the sidecars' spools use it.
//!
//! All writes of a process run on one thread with the only writing connection ([`Database::write`]). It runs all waiting writes in
//! one transaction and completes them after one `fsync`, so that many small commits cost little more than one. Reads use separate
//! read-only connections and never wait for the writer.

mod clock;
mod database;
mod disk;
mod error;
mod reader;
mod schema;
mod topics;
mod writer;

pub use clock::{Clock, system_clock};
pub use database::{Database, Stats};
pub use disk::is_disk_full;
pub use error::{OpenError, ReadError, WriteError};
pub use rusqlite;
pub use schema::Schema;
pub use topics::Watch;
pub use writer::Tx;
