//! Tests what the roles and the vended credentials of the `aws` profile allow, against a deployment on a local cloud that evaluates
//! policies.
//!
//! ```sh
//! localstack/up --auth
//! localstack/deploy --prefix ph-auth --console yes
//! cargo nextest run -p pilothouse-tests --test cloud --run-ignored all
//! ```
//!
//! `PILOTHOUSE_CLOUD_DEPLOYMENT` replaces the file `target/deploy/ph-auth.json`, which contains the address of the deployment. The tests of
//! `pilothouse-infra` check what the local cloud ignores: the permissions of functions on the queues and the stream that trigger them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod caller;
mod console;
mod deployment;
mod iam;
mod isolation;
mod requests;
mod worker_fixture;
