//! Who is calling: an owner by a signed token, or an agent by its session's key (architecture: Security).

use std::collections::HashMap;

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use pilothouse_domain::{AgentSessionId, Timestamp, UserId};
use pilothouse_wire::keys::{same_secret, sha256_hex};
use serde::Deserialize;

use super::{Problem, RequestId};
use crate::app::App;

/// The public keys of who signs tokens, by `kid`, and what a token must say.
pub struct Keyring {
    keys: HashMap<String, DecodingKey>,
    validation: Validation,
}

#[derive(Deserialize)]
struct Claims {
    sub: String,
    exp: u64,
}

/// A token that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The owner that it names.
    pub owner: UserId,
    /// When it ends.
    pub ends: Timestamp,
}

/// A key set that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// It is not JSON with a list of keys (RFC 7517).
    #[error("the key set cannot be read")]
    Unreadable(#[source] serde_json::Error),
    /// None of its keys can sign tokens that are accepted here.
    #[error("the key set has no RSA key with a `kid`")]
    Empty,
}

/// The keys of a set (RFC 7517) that may sign: RSA, with a `kid`, for RS256 where they say so. Others are left out.
fn signing_keys(jwks: &str) -> Result<HashMap<String, DecodingKey>, JwksError> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<serde_json::Value>,
    }
    let set: Set = serde_json::from_str(jwks).map_err(JwksError::Unreadable)?;
    let keys: HashMap<_, _> = set
        .keys
        .into_iter()
        // One by one: a key of a kind that is not known here must not hide the others.
        .filter_map(|key| serde_json::from_value::<Jwk>(key).ok())
        .filter(|key| matches!(key.algorithm, AlgorithmParameters::RSA(_)))
        .filter(|key| matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature)))
        .filter(|key| matches!(key.common.key_algorithm, None | Some(KeyAlgorithm::RS256)))
        .filter_map(|key| Some((key.common.key_id.clone()?, DecodingKey::from_jwk(&key).ok()?)))
        .collect();
    if keys.is_empty() { Err(JwksError::Empty) } else { Ok(keys) }
}

impl Keyring {
    /// Accepts RS256 tokens of `issuer` for `audience`, signed by one of `keys`. Nothing else: never `alg: none`,
    /// never a key that the token brings along.
    pub fn new(issuer: &str, audience: &str, keys: HashMap<String, DecodingKey>) -> Self {
        let mut validation = Validation::new(Algorithm::RS256);
        validation.set_issuer(&[issuer]);
        validation.set_audience(&[audience]);
        validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        validation.leeway = 5;
        Self { keys, validation }
    }

    /// The same with the keys of a JWKS document.
    pub fn of_jwks(issuer: &str, audience: &str, jwks: &str) -> Result<Self, JwksError> {
        Ok(Self::new(issuer, audience, signing_keys(jwks)?))
    }

    /// Whether it has the key that a token names.
    pub fn knows_key_of(&self, token: &str) -> bool {
        let kid = decode_header(token).ok().and_then(|header| header.kid);
        kid.is_some_and(|kid| self.keys.contains_key(&kid))
    }

    /// The owner that a token names.
    pub fn verify(&self, token: &str) -> Result<UserId, Problem> {
        self.check(token).map(|verified| verified.owner)
    }

    /// The owner that a token names, and until when.
    pub fn check(&self, token: &str) -> Result<Verified, Problem> {
        const REFUSED: Problem = Problem::Unauthenticated("the token is not valid; get a new one");
        let header = decode_header(token).map_err(|_| REFUSED)?;
        if header.alg != Algorithm::RS256 {
            return Err(REFUSED);
        }
        let key = header.kid.as_deref().and_then(|kid| self.keys.get(kid)).ok_or(REFUSED)?;
        let claims = decode::<Claims>(token, key, &self.validation).map_err(|_| REFUSED)?.claims;
        let owner = UserId::parse(claims.sub).map_err(|_| REFUSED)?;
        let millis = i64::try_from(claims.exp.saturating_mul(1000)).unwrap_or(i64::MAX);
        Ok(Verified { owner, ends: Timestamp::from_millis(millis) })
    }
}

fn bearer(parts: &Parts) -> Result<&str, Problem> {
    parts
        .headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .ok_or(Problem::Unauthenticated("send `Authorization: Bearer` with your token"))
}

/// An owner whose token was verified before the request came here: by API Gateway, in `aws`. An extension of the
/// request, which nothing that is sent can set.
#[derive(Debug, Clone)]
pub struct VerifiedOwner(pub UserId);

/// The owner who is calling.
#[derive(Debug, Clone)]
pub struct Owner(pub UserId);

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match parts.extensions.get::<VerifiedOwner>() {
            Some(VerifiedOwner(owner)) => Ok(Self(owner.clone())),
            None => app.keyring.verify(bearer(parts)?).map(Self),
        }
    }
}

/// The agent that is calling, with the key of its session.
#[derive(Debug, Clone)]
pub struct AgentCaller {
    /// The session that the key names. It is checked against the session when that is loaded.
    pub session: AgentSessionId,
    /// SHA-256 of its idempotency key.
    pub(crate) idempotency_key: Option<String>,
    key: String,
}

impl AgentCaller {
    /// Whether the session knows this key (only its hash is stored).
    pub fn is_known_by(&self, api_key_hash: Option<&str>) -> bool {
        api_key_hash.is_some_and(|hash| same_secret(hash, &sha256_hex(self.key.as_bytes())))
    }
}

impl FromRequestParts<App> for AgentCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        const REFUSED: Problem =
            Problem::Unauthenticated("send `Authorization: Bearer` with the session's API key");
        let key = bearer(parts).map_err(|_| REFUSED)?.to_owned();
        let session =
            key.strip_prefix("ph_").and_then(|rest| rest.split('.').next()).and_then(|id| id.parse().ok());
        let session = session.ok_or(REFUSED)?;
        let idempotency_key = RequestId::from_request_parts(parts, app).await?.key_hash;
        Ok(Self { session, idempotency_key, key })
    }
}
