//! Queries on templates.

pub mod get;
pub mod list;
