//! Authorizes connections to the WebSocket API by a token of the issuer. HTTP routes use API Gateway's JWT authorizer; WebSocket
//! APIs have none, so this function does the same.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pilothouse_app::function::requirements::AUTHORIZE;
use pilothouse_app::function::{EventFunction, Subscription, Trigger};
use pilothouse_app::http::{Keyring, Problem};
use pilothouse_app::keyring::{JwksError, VerifiedToken};
use tokio::sync::Mutex;
use tokio::time::Instant;

pub const FUNCTION: EventFunction =
    EventFunction::new("stream-authorize", &[Subscription::of_host(Trigger::Authorizer)], AUTHORIZE)
        .summary("Check the token of a new live stream");

/// The maximum age of the keys, so that revoked keys are dropped.
const FRESH: Duration = Duration::from_mins(15);
/// The minimum time between two fetches, whatever tokens arrive.
const PAUSE: Duration = Duration::from_secs(10);

/// Fetches the issuer's key set (RFC 7517).
#[async_trait]
pub trait KeySource: Send + Sync + 'static {
    async fn fetch(&self) -> Result<String, KeySourceError>;
}

#[derive(Debug, thiserror::Error)]
#[error("failed to fetch the issuer's keys")]
pub struct KeySourceError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// No key is available to check a token.
#[derive(Debug, thiserror::Error)]
enum NoKeys {
    #[error(transparent)]
    Source(#[from] KeySourceError),
    #[error(transparent)]
    Set(#[from] JwksError),
    #[error("the last fetch of the issuer's keys failed a moment ago")]
    Paused,
}

/// Checks tokens of one issuer. Keep one per process, because it caches the keys.
pub struct Authorizer {
    issuer: String,
    audience: String,
    source: Box<dyn KeySource>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: Option<Arc<Keyring>>,
    fetched_at: Option<Instant>,
    asked_at: Option<Instant>,
}

impl Authorizer {
    /// Accepts RS256 tokens of `issuer` for `audience`, signed by a key of `source`.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>, source: impl KeySource) -> Self {
        Self {
            issuer: issuer.into(),
            audience: audience.into(),
            source: Box::new(source),
            known: Mutex::default(),
        }
    }

    /// Fails with [`Problem::Unauthenticated`] if the token is invalid, and with any other error if it could not be checked.
    pub async fn verify(&self, token: &str) -> Result<VerifiedToken, Problem> {
        self.keys(token).await.map_err(Problem::internal)?.check(token)
    }

    /// Returns the keys. Fetches them if they are old or lack the key of the token.
    async fn keys(&self, token: &str) -> Result<Arc<Keyring>, NoKeys> {
        // The lock is held during the fetch, so that concurrent tokens share one request.
        let mut known = self.known.lock().await;
        let old = known.fetched_at.is_none_or(|at| at.elapsed() >= FRESH);
        if let Some(keys) = known.keys.as_ref().filter(|keys| !old && keys.knows_key_of(token)) {
            return Ok(Arc::clone(keys));
        }
        if known.asked_at.is_none_or(|at| at.elapsed() >= PAUSE) {
            known.asked_at = Some(Instant::now());
            match self.fetch().await {
                Ok(keys) => {
                    known.keys = Some(Arc::new(keys));
                    known.fetched_at = Some(Instant::now());
                }
                Err(error) if known.keys.is_none() => return Err(error),
                // A brief outage of the issuer must not invalidate known keys.
                Err(error) => {
                    let cause = pilothouse_app::error_chain(&error);
                    tracing::warn!(%cause, "failed to refresh the issuer's keys");
                }
            }
        }
        known.keys.clone().ok_or(NoKeys::Paused)
    }

    async fn fetch(&self) -> Result<Keyring, NoKeys> {
        let jwks = self.source.fetch().await?;
        Ok(Keyring::of_jwks(&self.issuer, &self.audience, &jwks)?)
    }
}

/// Returns the token of a handshake, from `Authorization: Bearer` or from `?token=`, because browsers cannot set headers there.
pub fn token_of<'a>(authorization: Option<&'a str>, query: Option<&'a str>) -> Option<&'a str> {
    let bearer = authorization
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token);
    bearer.or(query).map(str::trim).filter(|token| !token.is_empty())
}
