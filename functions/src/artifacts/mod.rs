//! Uploads of artifacts, for the APIs of people and of agents (decision 84).

pub(crate) mod input;
pub(crate) mod upload;
pub(crate) mod write;
