//! Queries on the event feed of an owner (S0 8.10, decision 37).

pub mod list;
