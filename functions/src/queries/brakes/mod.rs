//! Queries on emergency brakes (S2 "Emergency Brake", decision 72).

pub mod get;
pub mod list;
