//! Queries of the inbox (S2; decision 73).

pub mod get;
pub mod list;
