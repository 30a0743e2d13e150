//! Queries on the notifications of an owner (decision 37).

pub mod list;
