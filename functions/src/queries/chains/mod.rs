//! Queries on chains of sessions (S0 8.7, 8.9; decisions 33 to 35).

pub mod get;
pub mod list;
