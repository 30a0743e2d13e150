//! The knowledge of a project, as people and agents read it (decision 84).

pub(crate) mod search;
pub(crate) mod snapshot;
