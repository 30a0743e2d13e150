//! Queries on the pool of an owner (S0 8.12).

pub mod get;
