//! Queries for operators of the deployment.

pub mod list_dead_letters;
