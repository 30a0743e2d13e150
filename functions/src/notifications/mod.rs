//! What an owner is notified of (ruling 37). [`crate::telling`] makes the notifications.

pub mod list;
pub mod read;
pub mod read_all;
pub mod stream;
