//! Queries of the inbox (S2; decision 74).

pub mod get;
pub mod list;
