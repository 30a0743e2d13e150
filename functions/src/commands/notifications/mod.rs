//! Commands on the notifications of an owner (decision 37).

pub mod read;
pub mod read_all;
