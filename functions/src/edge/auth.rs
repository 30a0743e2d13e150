//! Who is calling: an owner by a signed token, or an agent by its session's key (architecture: Security).

use std::collections::HashMap;

use axum::extract::FromRequestParts;
use http::header;
use http::request::Parts;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use pilothouse_domain::{AgentSessionId, UserId};
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

    /// The owner that a token names.
    pub fn verify(&self, token: &str) -> Result<UserId, Problem> {
        const REFUSED: Problem = Problem::Unauthenticated("the token is not valid; get a new one");
        let header = decode_header(token).map_err(|_| REFUSED)?;
        if header.alg != Algorithm::RS256 {
            return Err(REFUSED);
        }
        let key = header.kid.as_deref().and_then(|kid| self.keys.get(kid)).ok_or(REFUSED)?;
        let claims = decode::<Claims>(token, key, &self.validation).map_err(|_| REFUSED)?.claims;
        UserId::parse(claims.sub).map_err(|_| REFUSED)
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

/// The owner who is calling.
#[derive(Debug, Clone)]
pub struct Owner(pub UserId);

impl FromRequestParts<App> for Owner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        app.keyring.verify(bearer(parts)?).map(Owner)
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
        let idempotency_key = RequestId::from_request_parts(parts, app).await?.key_hash;
        let key = bearer(parts).map_err(|_| REFUSED)?;
        let session =
            key.strip_prefix("ph_").and_then(|rest| rest.split('.').next()).and_then(|id| id.parse().ok());
        Ok(Self { session: session.ok_or(REFUSED)?, idempotency_key, key: key.to_owned() })
    }
}
