//! Queries on the message queue of a session.

pub mod list;
