//! The AWS clients, which share connections and credentials.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, SdkConfig};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};

/// The connect timeout.
const CONNECT: Duration = Duration::from_secs(2);
const TRIES: u32 = 3;
/// How long an idle connection is kept. Services close theirs after about a minute, which a frozen environment does not notice.
const IDLE: Duration = Duration::from_secs(45);

pub(super) struct Clients {
    pub(super) shared: SdkConfig,
    pub(super) table: aws_sdk_dynamodb::Client,
    pub(super) queues: aws_sdk_sqs::Client,
    pub(super) blobs: aws_sdk_s3::Client,
    pub(super) secrets: aws_sdk_secretsmanager::Client,
}

impl Clients {
    /// Loads region, credentials and endpoints from the environment. Requests time out before the function, whose timeout is
    /// `limit`.
    pub(super) async fn load(limit: Duration) -> Self {
        let mut builder = Builder::new();
        builder.set_pool_idle_timeout(Some(Some(IDLE)));
        let http = builder.tls_provider(Provider::Rustls(CryptoMode::AwsLc)).build_https();
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT.min(limit / 4))
            .operation_attempt_timeout(limit / 4)
            .operation_timeout(limit * 3 / 4)
            .build();
        let shared = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(http)
            .timeout_config(timeouts)
            .retry_config(RetryConfig::standard().with_max_attempts(TRIES))
            .load()
            .await;
        // A local cloud does not serve buckets as subdomains.
        let own =
            aws_sdk_s3::config::Builder::from(&shared).force_path_style(shared.endpoint_url().is_some());
        Self {
            table: aws_sdk_dynamodb::Client::new(&shared),
            queues: aws_sdk_sqs::Client::new(&shared),
            blobs: aws_sdk_s3::Client::from_conf(own.build()),
            secrets: aws_sdk_secretsmanager::Client::new(&shared),
            shared,
        }
    }
}
