//! Workers that stand elsewhere: who is given what, whatever comes at the same time or never.
#![allow(clippy::unwrap_used)]

mod assigning;
mod claiming;
mod credentials;
mod ending;
mod orphans;
mod stage;
