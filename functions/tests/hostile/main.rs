//! Attacks of a hostile client, without processes: paths that are not text, excessive waiting times, ids of other owners, limits
//! exceeded by concurrent requests, and failing webhook endpoints.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
mod limits;
mod requests;
mod webhooks;
