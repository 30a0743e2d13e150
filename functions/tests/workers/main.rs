//! Remote workers: assignments under concurrency and after failures.
#![allow(clippy::unwrap_used)]

mod assigning;
mod blobs;
mod claiming;
mod credentials;
mod ending;
mod fixture;
mod lost;
mod orphans;
