//! Queries on the agents of projects.

pub mod brief_schema;
pub mod checkpoints;
pub mod get;
pub mod health;
pub mod list;
