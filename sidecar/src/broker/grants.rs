//! Short-lived AWS credentials of a run: fetched, cached, and renewed before they expire.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use pilothouse_wire::gateway::RunCredentials;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::BrokerError;
use super::control_plane::{ControlPlane, Purpose};
use crate::clock;

const CONNECT: Duration = Duration::from_secs(5);
/// Lower bound between two fetches while the credentials are accepted. Without it, a fast clock would make every
/// grant look expired.
const MIN_USE: Duration = Duration::from_secs(30);
/// Wait after a failed renewal while the old credentials are valid.
const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// Credentials, and a client that signs with them.
pub(super) struct Grant {
    /// The granted credentials and the queues and bucket that they open.
    pub(super) access: RunCredentials,
    /// The same credentials as the SDK's type.
    pub(super) credentials: Credentials,
    pub(super) sqs: Client,
    ends_at: Instant,
}

struct Held {
    grant: Arc<Grant>,
    renew_at: Instant,
}

/// Fetches and renews the grants of one run.
pub(super) struct Grants {
    control_plane: ControlPlane,
    purpose: Purpose,
    /// Reused across renewals together with its connections.
    http: SharedHttpClient,
    held: Mutex<Option<Held>>,
}

impl Grants {
    pub(super) fn new(control_plane: ControlPlane, purpose: Purpose) -> Self {
        // This client uses no proxy by default, whatever the environment says.
        let http = aws_smithy_http_client::Builder::new()
            .pool_max_idle_per_host(3)
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .build_https();
        Self { control_plane, purpose, http, held: Mutex::new(None) }
    }

    /// The current grant. If its renewal fails, the old grant serves until it expires.
    pub(super) async fn current(&self) -> Result<Arc<Grant>, BrokerError> {
        let mut held = self.held.lock().await;
        if let Some(Held { grant, renew_at }) = &*held
            && Instant::now() < *renew_at
        {
            return Ok(Arc::clone(grant));
        }
        match self.fetch().await {
            Ok(fetched) => Ok(Arc::clone(&held.insert(fetched).grant)),
            Err(error) if error.is_final() => Err(error),
            Err(error) => match &mut *held {
                Some(Held { grant, renew_at }) if Instant::now() < grant.ends_at => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "failed to renew the credentials; the previous ones are still valid"
                    );
                    *renew_at = Instant::now() + RENEW_AGAIN;
                    Ok(Arc::clone(grant))
                }
                _ => Err(error),
            },
        }
    }

    /// Discards a refused grant, unless another has already replaced it.
    pub(super) async fn refused(&self, grant: &Arc<Grant>) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.grant, grant)) {
            *held = None;
        }
    }

    async fn fetch(&self) -> Result<Held, BrokerError> {
        let access = self.control_plane.credentials(self.purpose).await?;
        let life = access.expires_at.since(clock::now());
        debug!(?life, "fetched credentials");
        let now = Instant::now();
        let credentials = Credentials::new(
            &access.access_key_id,
            &access.secret_access_key,
            Some(access.session_token.clone()),
            None, // `Grants` tracks the expiry.
            "run",
        );
        let sqs = Client::from_conf(self.config(&access, credentials.clone()));
        let grant = Arc::new(Grant { access, credentials, sqs, ends_at: now + life });
        Ok(Held { grant, renew_at: now + renewed_after(life) })
    }

    fn config(&self, access: &RunCredentials, credentials: Credentials) -> aws_sdk_sqs::Config {
        let mut config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(access.region.clone()))
            .credentials_provider(credentials)
            .http_client(self.http.clone())
            // Publisher and listener retry themselves.
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build());
        config.set_endpoint_url(access.endpoint.clone());
        config.build()
    }
}

/// When to renew credentials with this lifetime: early enough for several attempts before they expire.
fn renewed_after(life: Duration) -> Duration {
    (life * 2 / 3).max(MIN_USE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_renewed_at_two_thirds_of_their_lifetime() {
        assert_eq!(renewed_after(Duration::from_hours(1)), Duration::from_mins(40));
        assert_eq!(renewed_after(Duration::ZERO), MIN_USE);
    }
}
