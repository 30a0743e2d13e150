//! What the functions of people and of agents share to write and read artifacts (decision 84).

pub(crate) mod content;
pub(crate) mod input;
pub(crate) mod upload;
pub(crate) mod write;
