//! Queries on coherence issues (S2, "Coherence Monitoring"; decision 88).

pub mod get;
pub mod list;
pub mod score;
