//! The live stream of the `aws` profile: what a connection is posted, whatever happens in between.
#![allow(clippy::unwrap_used)]

mod concurrent;
mod gateway;
mod pushing;
mod stage;
mod subscribing;
