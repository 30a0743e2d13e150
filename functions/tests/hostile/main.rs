//! Attacks of a hostile client, without processes: paths that are not text, excessive waiting times, ids of other owners, limits
//! exceeded by concurrent requests, failing webhook endpoints, browsers that are logged out, and searches in long sessions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
mod limits;
mod logged_out;
mod requests;
mod searching;
mod webhooks;
