//! The live stream of the `aws` profile: which messages a connection receives, also after failures.
#![allow(clippy::unwrap_used)]

mod concurrent;
mod fixture;
mod gateway;
mod inbox;
mod projects;
mod pushing;
mod subscribing;
