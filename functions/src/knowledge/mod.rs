//! Searches and snapshots of a project's knowledge, for people and agents (decision 84).

pub(crate) mod search;
pub(crate) mod snapshot;
