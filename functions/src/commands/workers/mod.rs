//! Commands on the workers of an owner.

pub mod remove;
