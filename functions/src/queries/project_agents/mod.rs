//! Queries on the agents of projects.

pub mod get;
pub mod list;
