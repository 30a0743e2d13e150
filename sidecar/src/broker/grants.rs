//! Short-lived credentials of a run: fetched, kept, and renewed before they end.

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
use crate::clock;
use crate::control_plane::{ControlPlane, Purpose};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// Credentials are not fetched more often than this while they are accepted: a clock that runs ahead would make every
/// grant look spent.
const SHORTEST_USE: Duration = Duration::from_secs(30);
/// How long a renewal that failed waits while the old credentials still serve.
const RENEW_AGAIN: Duration = Duration::from_secs(5);

/// Credentials, and a client that signs with them.
pub(super) struct Grant {
    /// What was granted, and where it is used.
    pub(super) access: RunCredentials,
    /// The same, as the signers want them.
    pub(super) credentials: Credentials,
    /// Signs with them.
    pub(super) sqs: Client,
    ends_at: Instant,
}

/// What is granted now.
struct Held {
    grant: Arc<Grant>,
    renew_at: Instant,
}

/// Fetches and renews the grants of one run.
pub(super) struct Grants {
    control_plane: ControlPlane,
    purpose: Purpose,
    /// Kept over renewals, with its connections.
    http: SharedHttpClient,
    held: Mutex<Option<Held>>,
}

impl Grants {
    pub(super) fn new(control_plane: ControlPlane, purpose: Purpose) -> Self {
        // The default of this client is to use no proxy, whatever the environment says.
        let http = aws_smithy_http_client::Builder::new()
            .pool_max_idle_per_host(3)
            .tls_provider(Provider::Rustls(CryptoMode::AwsLc))
            .build_https();
        Self { control_plane, purpose, http, held: Mutex::new(None) }
    }

    /// The grant to use now. When it cannot be renewed in time, the old one serves to its end.
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
                    warn!(error = &error as &dyn std::error::Error, "credentials cannot be renewed yet");
                    *renew_at = Instant::now() + RENEW_AGAIN;
                    Ok(Arc::clone(grant))
                }
                _ => Err(error),
            },
        }
    }

    /// Forgets a grant that was refused, unless another has replaced it meanwhile.
    pub(super) async fn refused(&self, grant: &Arc<Grant>) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(&held.grant, grant)) {
            *held = None;
        }
    }

    async fn fetch(&self) -> Result<Held, BrokerError> {
        let access = self.control_plane.credentials(self.purpose).await?;
        let life = access.expires_at.since(clock::now());
        debug!(?life, "credentials were granted");
        let now = Instant::now();
        let credentials = Credentials::new(
            &access.access_key_id,
            &access.secret_access_key,
            Some(access.session_token.clone()),
            None, // Their end is watched here.
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
            // The publisher and the listener try again, and know when to give up.
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build());
        config.set_endpoint_url(access.endpoint.clone());
        config.build()
    }
}

/// When credentials of this life are renewed: early enough for many tries before they end.
fn renewed_after(life: Duration) -> Duration {
    (life * 2 / 3).max(SHORTEST_USE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_renewed_at_two_thirds_of_their_life_but_not_all_the_time() {
        assert_eq!(renewed_after(Duration::from_hours(1)), Duration::from_mins(40));
        assert_eq!(renewed_after(Duration::ZERO), SHORTEST_USE);
    }
}
