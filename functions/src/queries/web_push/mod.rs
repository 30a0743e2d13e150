//! Queries of Web Push (decision 98).

pub mod key;
pub mod list;
