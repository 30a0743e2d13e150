//! Queries on skills and their memory pills.

pub mod get;
pub mod list;
pub mod memory_pills;
