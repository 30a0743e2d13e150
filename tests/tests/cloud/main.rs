//! What the roles and the vended credentials of the `aws` profile really open, by trying: against a deployment on a local
//! cloud that evaluates policies.
//!
//! ```sh
//! localstack/up --auth
//! localstack/deploy --prefix ph-auth
//! cargo nextest run -p pilothouse-tests --test cloud --run-ignored all
//! ```
//!
//! `PILOTHOUSE_CLOUD_DEPLOYMENT` names another deployment's file than `target/deploy/ph-auth.json`; where it stands is
//! written in there. What the local cloud does not judge, the tests of `pilothouse-infra` do: that functions may take
//! from the queues and the stream which trigger them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod caller;
mod deployment;
mod iam;
mod isolation;
mod party;
mod requests;
