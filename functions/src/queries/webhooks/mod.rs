//! Queries on webhooks and their deliveries.

pub mod deliveries;
pub mod list;
