//! Queries on projects.

pub mod get;
pub mod list;
