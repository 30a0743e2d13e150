//! Queries on the workers of an owner.

pub mod list;
