//! Runs the suites on the engines of the `aws` profile, against a local cloud: `PILOTHOUSE_CLOUD=http://127.0.0.1:4566 cargo nextest run -p
//! pilothouse-tests -E 'test(cloud::)' --run-ignored all`. Each test creates its resources under a unique name and removes them, even if it
//! fails.

mod blobs;
mod broker;
mod table;

use std::future::Future;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use uuid::Uuid;

fn endpoint() -> String {
    std::env::var("PILOTHOUSE_CLOUD").expect("PILOTHOUSE_CLOUD is the address of a local cloud")
}

/// A unique name: a letter followed by 16 lowercase letters and digits.
fn unique() -> String {
    let id = Uuid::now_v7().simple().to_string();
    // The last digits of the time, and random digits.
    format!("t{}{}", &id[6..12], &id[22..])
}

macro_rules! client {
    ($service:ident) => {{
        let config = $service::Config::builder()
            .behavior_version(super::BehaviorVersion::v2026_01_12())
            .region(super::Region::new("eu-central-1"))
            .endpoint_url(super::endpoint())
            .credentials_provider(super::Credentials::new("test", "test", None, None, "test"))
            .http_client(aws_smithy_http_client::Builder::new().build_http());
        config
    }};
}
use client;

/// Cleans up even if the case fails, and then fails.
async fn then_clean<C: Future<Output = ()> + Send + 'static>(case: C, clean: impl Future<Output = ()>) {
    let outcome = tokio::spawn(case).await;
    clean.await;
    if let Err(failed) = outcome {
        std::panic::resume_unwind(failed.into_panic());
    }
}
