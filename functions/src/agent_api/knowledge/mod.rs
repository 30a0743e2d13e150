//! The knowledge of a project, as its agents read it (S2, "Security boundaries"; decision 84).

pub(super) mod audit;
pub mod decision;
pub mod search;
