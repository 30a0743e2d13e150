//! Who may open a connection of the WebSocket API: whoever brings a token of the issuer. HTTP routes have API Gateway's
//! own JWT authorizer; WebSocket APIs have none, so this one does the same.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::edge::auth::{JwksError, Verified};
use crate::edge::{Keyring, Problem};

/// Keys are fetched again after this time, so that withdrawn ones are forgotten.
const FRESH: Duration = Duration::from_mins(15);
/// Between two fetches there is at least this time, whatever tokens come.
const PAUSE: Duration = Duration::from_secs(10);

/// Fetches the issuer's key set (RFC 7517).
#[async_trait]
pub trait KeySource: Send + Sync + 'static {
    /// The JSON text.
    async fn fetch(&self) -> Result<String, KeySourceError>;
}

/// The key set did not come.
#[derive(Debug, thiserror::Error)]
#[error("the issuer's keys cannot be fetched")]
pub struct KeySourceError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// There is no key to check a token with.
#[derive(Debug, thiserror::Error)]
enum NoKeys {
    #[error(transparent)]
    Source(#[from] KeySourceError),
    #[error(transparent)]
    Set(#[from] JwksError),
    #[error("the issuer's keys could not be fetched a moment ago")]
    Paused,
}

/// Checks tokens of one issuer. One lives as long as its process, for the sake of the keys that it knows.
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

    /// Who a token speaks for, and until when.
    ///
    /// # Errors
    /// [`Problem::Unauthenticated`]: the token is not good. Anything else: it could not be checked.
    pub async fn handle(&self, token: &str) -> Result<Verified, Problem> {
        self.keys(token).await.map_err(Problem::internal)?.check(token)
    }

    /// The keys, fetched when they are old or the token names one that is not among them.
    async fn keys(&self, token: &str) -> Result<Arc<Keyring>, NoKeys> {
        // Held while fetching: tokens that come together wait for one answer.
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
                // An issuer that is away for a moment is no reason to refuse what was good before.
                Err(error) => {
                    let cause = crate::intake::chain(&error);
                    tracing::warn!(%cause, "the issuer's keys could not be refreshed");
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

/// The token of a handshake: that of `Authorization: Bearer`, or of `?token=`, as browsers cannot set headers there.
pub fn token_of<'a>(authorization: Option<&'a str>, query: Option<&'a str>) -> Option<&'a str> {
    let bearer = authorization
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token);
    bearer.or(query).map(str::trim).filter(|token| !token.is_empty())
}
